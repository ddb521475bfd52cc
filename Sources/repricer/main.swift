import Glibc
import RepricerCommands

exit(await RepricerCommands.main())
