import Reports

/// The rules for names of batches.
enum BatchName {
    /// The database's own limit.
    private static let charactersMax = 200

    /// Checks a name. People decide by lines that contain it, so no character of it may hide what follows or change its
    /// direction.
    static func checked(_ name: String) throws(UsageError) -> String {
        guard name.unicodeScalars.count <= charactersMax else {
            throw UsageError("--name has more than \(charactersMax) characters; give a shorter one")
        }
        guard !name.unicodeScalars.contains(where: steers) else {
            throw UsageError(
                "--name holds a line end, a control character or a mark that turns the direction of text; leave it out"
            )
        }
        guard name.contains(where: { !$0.isWhitespace }) else {
            throw UsageError("--name is blank; give one that people will know it by")
        }
        return name
    }
}
