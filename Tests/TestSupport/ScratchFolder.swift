import Foundation

/// A folder that is gone with its last user.
package final class ScratchFolder: Sendable {
    package let path = NSTemporaryDirectory() + "repricer-" + UUID().uuidString

    package init() throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit {
        // A folder that stays behind fails no promise to a user.
        try? FileManager.default.removeItem(atPath: path)
    }

    /// Writes a file into the folder; returns its path.
    package func file(_ name: String, _ text: String) throws -> String {
        try text.write(toFile: "\(path)/\(name)", atomically: true, encoding: .utf8)
        return "\(path)/\(name)"
    }

    /// What a file of the folder holds.
    package func text(_ name: String) throws -> String {
        try String(contentsOfFile: "\(path)/\(name)", encoding: .utf8)
    }
}
