import CRelease
import Facts

extension Commands {
    static let productVersion = String(cString: repricer_version())
    static let productDate = String(cString: repricer_version_day())
    /// The commit; nil where the build did not get it, for example in a manual build.
    static var productCommit: String? {
        let commit = String(cString: repricer_commit())
        return commit.isEmpty ? nil : commit
    }

    static let version = Command(
        "version", "print the program's version",
        discussion: """
            The commit is that of the sources of a package; a program that was built by hand does not know it. The schema is \
            the one that the program was written for; it runs on a newer one, too, until a migration is breaking.
            """
    ) { invocation in
        try invocation.print(
            json: [
                "name": "repricer", "version": productVersion,
                "commit": productCommit.map { JSONValue.string($0) } ?? .null,
                "schema": expectedSchemaVersion,
            ],
            "repricer \(productVersion) (commit \(productCommit ?? "not known"), schema \(expectedSchemaVersion))\n"
        )
        return .done
    }
}
