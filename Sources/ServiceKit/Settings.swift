/// Why the settings could not be loaded; the text begins with `FILE:LINE:` where there is a line.
package struct SettingsError: Error, Equatable, CustomStringConvertible {
    package let file: String
    package let line: Int?
    package let reason: String
    /// The further faults, of later lines.
    package var further: [SettingsError] = []

    package var description: String {
        ([self] + further).map(\.ownText).joined(separator: "\n")
    }

    /// The text of this fault, without the further ones.
    package var ownText: String {
        let place = line.map { "\(file):\($0):" } ?? "\(file):"
        return "\(place) \(reason)"
    }
}

/// The process environment over an optional environment file. Each value knows where it came from.
package struct Settings: Sendable {
    package struct Value: Sendable, Equatable {
        package let text: String
        /// `environment`, or `FILE:LINE`.
        package let source: String
    }

    /// The largest environment file. A larger one is refused.
    package static let fileBytesMax = 1 << 20

    private let values: [String: Value]

    /// Reads `envFile` (systemd's EnvironmentFile syntax). A variable of the process wins over it.
    ///
    /// - Parameter isSecret: Whether a key's value is secret. A file that holds one must not be readable by other
    ///   users.
    package static func load(
        environment: [String: String], envFile: String?,
        isSecret: (_ key: String, _ value: String) -> Bool = { _, _ in false }
    ) throws(SettingsError) -> Settings {
        var values: [String: Value] = [:]
        if let envFile {
            let (text, modeForOthers) = try EnvironmentFile.read(envFile)
            for assignment in try EnvironmentFile.parse(text, file: envFile) {
                if let modeForOthers, isSecret(assignment.key, assignment.value) {
                    throw SettingsError(
                        file: envFile, line: assignment.line,
                        reason: "\(assignment.key) holds a password, and the file can be read by "
                            + "others (mode \(modeForOthers)); chmod 600 \(envFile)")
                }
                values[assignment.key] = Value(
                    text: assignment.value, source: "\(envFile):\(assignment.line)")
            }
        }
        for (key, text) in environment {
            values[key] = Value(text: text, source: "environment")
        }
        return Settings(values: values)
    }

    /// The value of one variable; nil when it is set nowhere, and possibly empty.
    package func value(_ key: String) -> (text: String, source: String)? {
        values[key].map { ($0.text, $0.source) }
    }

    /// Every variable whose name begins with `prefix`, sorted by name.
    package func entries(prefix: String) -> [(key: String, value: Value)] {
        values.filter { $0.key.hasPrefix(prefix) }.sorted { $0.key < $1.key }
            .map { ($0.key, $0.value) }
    }
}
