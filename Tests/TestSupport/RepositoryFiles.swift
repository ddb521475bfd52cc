import Foundation

/// Where the repository lies, found from this file's own path.
package enum RepositoryFiles {
    package static let root: String = {
        var url = URL(fileURLWithPath: #filePath)
        for _ in 0..<3 { url.deleteLastPathComponent() }
        return url.path
    }()

    package static func path(_ relative: String) -> String { "\(root)/\(relative)" }
}

func environmentFlag(_ name: String) -> Bool {
    let value = ProcessInfo.processInfo.environment[name] ?? ""
    return !["", "0", "false"].contains(value)
}
