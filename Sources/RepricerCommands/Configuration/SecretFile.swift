import Glibc
import JOSE
import ServiceKit

/// Files that hold a secret: read only when nobody else can.
enum SecretFile {
    private static let bytesMax = 64 << 10

    struct Fault: Error, Equatable {
        let wrong: String
        let remedy: String
    }

    /// The folder in which systemd keeps copies of secrets for this service (`LoadCredential=`). The service gets
    /// access by an access control list, which `stat` shows as a group right.
    static let credentialsFolder = getenv("CREDENTIALS_DIRECTORY").map { String(cString: $0) }

    /// The file's text. Throws where others can read it, where it is empty, or where it is no file.
    static func read(
        _ path: String, credentialsIn folder: String? = credentialsFolder,
        whereNoText remedy: String =
            "write letters and digits, as `openssl rand -hex 32` makes them"
    ) throws(Fault) -> String {
        // Without O_NONBLOCK, opening a pipe without a writer would block for ever.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0, let file = fdopen(descriptor, "r") else {
            let why = String(cString: strerror(errno))
            throw Fault(wrong: "\(path) cannot be opened: \(why)", remedy: "check path and rights")
        }
        defer { fclose(file) }
        // The open descriptor is checked, so that the file cannot be swapped between the check and the read.
        var status = stat()
        guard fstat(fileno(file), &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw Fault(wrong: "\(path) is no regular file", remedy: "name a file")
        }
        let isCredential =
            folder.map { !$0.isEmpty && path.hasPrefix("\($0)/") && !path.contains("..") } ?? false
        if let mode = FileRights.modeForOthers(status),
            !isCredential || status.st_mode & 0o027 != 0
        {
            throw Fault(
                wrong: "\(path) can be read by others (mode \(mode))",
                remedy: "chmod 600 \(path)")
        }
        var bytes = [UInt8](repeating: 0, count: bytesMax + 1)
        let count = fread(&bytes, 1, bytes.count, file)
        guard ferror(file) == 0 else {
            throw Fault(wrong: "\(path) cannot be read", remedy: "check the file system")
        }
        guard count > 0 else { throw Fault(wrong: "\(path) is empty", remedy: "fill it") }
        guard count <= bytesMax else {
            throw Fault(wrong: "\(path) is larger than 64 KiB", remedy: "name the right file")
        }
        // Invalid bytes would all become the same replacement character, so a wrong secret could match a right one.
        guard let text = String(validating: bytes.prefix(count), as: UTF8.self),
            !text.contains("\0")
        else {
            throw Fault(wrong: "\(path) holds bytes that are no text", remedy: remedy)
        }
        return text
    }

    /// The App Store key (`AuthKey_….p8`).
    static func readKey(_ path: String) throws(Fault) -> ES256PrivateKey {
        let text = try read(path, whereNoText: "download the .p8 key again")
        do throws(JOSEError) {
            return try ES256PrivateKey(pem: text)
        } catch {
            throw error.code == .curve
                ? Fault(wrong: "\(path) is not a P-256 key", remedy: "use the In-App Purchase key")
                : Fault(
                    wrong: "\(path) is not an unencrypted PEM private key",
                    remedy: "download the .p8 key again")
        }
    }

    /// The first line, for tokens: editors end files with a line feed that is no part of the secret.
    static func readToken(_ path: String, of variable: Variable) throws(ConfigurationFault)
        -> String
    {
        do throws(Fault) {
            let line = try read(path).prefix { !$0.isNewline }
            guard line.contains(where: { !$0.isWhitespace }) else {
                throw Fault(wrong: "\(path) begins with an empty line", remedy: "fill it")
            }
            return String(line)
        } catch {
            throw ConfigurationFault(problems: [
                ConfigurationProblem(variable.rawValue, error.wrong, remedy: error.remedy)
            ])
        }
    }
}
