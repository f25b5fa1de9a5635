"""Running a command so that the operating system limits what it can write and reach."""
