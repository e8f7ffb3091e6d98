"""What make and CI run besides the code that is shipped."""
