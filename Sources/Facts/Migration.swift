import FoundationEssentials

/// One file of `Migrations/`.
package struct Migration: Sendable, Equatable {
    package let version: Int
    /// The part of the file name between the number and `.sql`.
    package let name: String
    package let file: String
    package let text: String

    /// Every `NNNN_what.sql` of a directory in order; the numbers are 1, 2, 3 … without a gap.
    ///
    /// `schema.sql` (the dump), `README.md` and dot-files are passed over; anything else that ends
    /// in `.sql` is an error, so that a misnamed file cannot be forgotten.
    package static func read(directory: String) throws(MigrationError) -> [Migration] {
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: directory)
        } catch {
            throw .directoryUnreadable(path: directory)
        }
        var migrations: [Migration] = []
        for name in names.sorted() where name.hasSuffix(".sql") && !name.hasPrefix(".") {
            if name == "schema.sql" { continue }
            migrations.append(try read(file: name, directory: directory))
        }
        guard !migrations.isEmpty else { throw .noMigrations(path: directory) }
        try checkNumbers(migrations)
        return migrations
    }

    private static func read(
        file: String, directory: String
    ) throws(MigrationError) -> Migration {
        guard let match = file.wholeMatch(of: /([0-9]{4})_([a-z0-9_]+)\.sql/),
            let version = Int(match.1)
        else { throw .badFileName(file) }
        guard let data = FileManager.default.contents(atPath: "\(directory)/\(file)"),
            let text = String(validating: data, as: UTF8.self), !text.utf8.contains(0)
        else { throw .notText(file: file) }
        return Migration(version: version, name: String(match.2), file: file, text: text)
    }

    private static func checkNumbers(_ migrations: [Migration]) throws(MigrationError) {
        var expected = 1
        for (index, migration) in migrations.enumerated() {
            if index > 0, migrations[index - 1].version == migration.version {
                throw .duplicateVersion(
                    migration.version, files: [migrations[index - 1].file, migration.file])
            }
            guard migration.version == expected else { throw .missingVersion(expected) }
            expected += 1
        }
    }
}
