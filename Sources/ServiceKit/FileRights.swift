package import Glibc

/// Who besides its owner may use a file.
package enum FileRights {
    /// The mode of an open file that others may read or write, as `chmod` writes it; nil: nobody else may.
    package static func modeForOthers(_ status: stat) -> String? {
        status.st_mode & 0o066 == 0 ? nil : String(status.st_mode & 0o777, radix: 8)
    }
}
