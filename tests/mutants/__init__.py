"""Small faults put into the code on purpose, one at a time: the tests have to find each of them."""
