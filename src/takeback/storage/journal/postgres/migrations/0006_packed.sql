-- The body of a big record may be packed from here on: compressed, alone or as what differs from an earlier record. It
-- then begins with the byte 1, which no JSON begins with. The digest is that of the bytes before packing. No table
-- changes; the number keeps an older program from taking packed records for damaged ones.
SELECT 1;
