import Glibc
import RepricerCommands

let code = await RepricerCommands.main()
// Without the libraries' finalizers: they free what threads of closed connections may still be letting go of.
fflush(nil)
_exit(code)
