from redrive.cli import main

main()
