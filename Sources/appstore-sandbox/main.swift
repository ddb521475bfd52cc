import Foundation
import SandboxStore

let code = await SandboxCommand.run(
    Array(CommandLine.arguments.dropFirst()),
    output: { FileHandle.standardOutput.write(Data($0.utf8)) },
    errors: { FileHandle.standardError.write(Data($0.utf8)) })
exit(code)
