import FoundationEssentials

/// Finds the folder of migrations, wherever the program was installed.
enum MigrationsFolder {
    /// How many parent folders are searched.
    private static let parentsMax = 8

    /// The first file of our migrations. It is checked, because other programs have folders of this name too.
    static let firstFile = "0001_roles_and_schemas.sql"

    /// `--migrations`, else `REPRICER_MIGRATIONS`, else a folder `Migrations` with our first file beside the
    /// program or above it, where a package has it in `share/repricer`, else above the working directory.
    static func find(
        option: String?, configuration: Configuration, dependencies: Dependencies
    ) throws(CommandFailure) -> String {
        if let named = option ?? configuration.migrations { return named }
        let starts = [dependencies.programPath.map(parent(of:)), dependencies.workingDirectory]
            .compactMap { $0 }
        for start in starts {
            if let found = search(upwardsFrom: start) { return found }
        }
        throw CommandFailure(
            .failed,
            "no folder Migrations of this program beside it or above "
                + "\(dependencies.workingDirectory); give --migrations DIR or set REPRICER_MIGRATIONS"
        )
    }

    private static func search(upwardsFrom start: String) -> String? {
        var folder = start
        for _ in 0...parentsMax {
            let prefix = folder == "/" ? "" : folder
            for candidate in ["\(prefix)/Migrations", "\(prefix)/share/repricer/Migrations"]
            where isOurs(candidate) {
                return candidate
            }
            if folder == "/" || folder.isEmpty { return nil }
            folder = parent(of: folder)
        }
        return nil
    }

    private static func isOurs(_ folder: String) -> Bool {
        FileManager.default.fileExists(atPath: folder + "/" + firstFile)
    }

    private static func parent(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "" }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }
}
