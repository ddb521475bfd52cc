/// Why a batch file cannot be used at all. The faults of single rows are `RowFault`s.
package struct BatchFileError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: String, Hashable, Sendable, CaseIterable {
        case unreadableFile = "unreadable_file"
        case emptyFile = "empty_file"
        case badEncoding = "bad_encoding"
        case badHeader = "bad_header"
        case unknownColumn = "unknown_column"
        case duplicateColumn = "duplicate_column"
        case missingColumn = "missing_column"
        case priceColumns = "price_columns"
    }

    package var code: Code
    package var file: String
    /// The line at fault; nil where no line is.
    package var line: Int?
    package var message: String
    package var remedy: String
    /// Further faults, because a header is refused for all of its faults at once.
    package var further: [BatchFileError] = []

    /// The text `FILE:LINE: CODE: what is wrong; what to do`, without what else is wrong.
    package var description: String {
        "\(file):\(line.map { "\($0):" } ?? "") \(code.rawValue): \(message); \(remedy)"
    }
}
