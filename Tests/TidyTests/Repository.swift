import Foundation
import TestSupport

/// The repository's own files, read and scanned once: those that git tracks or would offer to track.
struct Repository {
    struct SwiftFile {
        var path: String
        var text: SwiftText
    }

    static let shared = Result { try Repository() }

    let paths: [String]
    let swiftFiles: [SwiftFile]

    private init() throws {
        // A file may be deleted and not yet committed.
        paths = try Repository.listing().filter {
            FileManager.default.fileExists(atPath: RepositoryFiles.path($0))
        }
        swiftFiles = try paths.filter { $0.hasSuffix(".swift") }.map {
            SwiftFile(path: $0, text: SwiftText(try Repository.text($0)))
        }
    }

    static func text(_ path: String) throws -> String {
        try String(contentsOfFile: RepositoryFiles.path(path), encoding: .utf8)
    }

    private static func listing() throws -> [String] {
        // CI may have cloned as another user.
        let data = try Program.command([
            "git", "-c", "safe.directory=*", "-C", RepositoryFiles.root, "ls-files", "-z",
            "--cached", "--others", "--exclude-standard",
        ])
        return Set(data.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }).sorted()
    }

    /// What `rule` finds in the Swift files under `folders` but not under `exceptions`.
    func findings(
        in folders: [String], except exceptions: [String] = [], _ rule: (SwiftText) -> [Finding]
    ) -> [String] {
        files(in: folders, except: exceptions).flatMap { file in
            rule(file.text).map { "\(file.path):\($0)" }
        }
    }

    func files(in folders: [String], except exceptions: [String] = []) -> [SwiftFile] {
        swiftFiles.filter { file in
            folders.contains { file.path.hasPrefix("\($0)/") }
                && !exceptions.contains { file.path.hasPrefix("\($0)/") }
        }
    }
}
