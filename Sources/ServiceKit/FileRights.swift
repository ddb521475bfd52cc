package import Glibc

/// Whether others than its owner may use a file.
package enum FileRights {
    /// The mode of a file that others may read or write, in octal as for `chmod`; nil where nobody else may.
    package static func modeForOthers(_ status: stat) -> String? {
        status.st_mode & 0o066 == 0 ? nil : String(status.st_mode & 0o777, radix: 8)
    }
}
