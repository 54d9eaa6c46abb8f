from snellen.cli import main

main()
