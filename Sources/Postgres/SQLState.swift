/// A five-character SQLSTATE. The first two characters are its class.
package struct SQLState: Hashable, Sendable, CustomStringConvertible {
    package let code: String

    package init(_ code: String) {
        self.code = code
    }

    /// The first two characters: `23` for integrity constraints, `08` for connections.
    package var classCode: String { String(code.prefix(2)) }

    package var description: String { code }

    package static let serializationFailure = SQLState("40001")
    package static let deadlockDetected = SQLState("40P01")
    package static let checkViolation = SQLState("23514")
    package static let insufficientPrivilege = SQLState("42501")
    package static let undefinedTable = SQLState("42P01")
    package static let invalidParameterValue = SQLState("22023")
    package static let numericValueOutOfRange = SQLState("22003")
    package static let undefinedColumn = SQLState("42703")
    package static let undefinedSchema = SQLState("3F000")
    package static let adminShutdown = SQLState("57P01")
    package static let crashShutdown = SQLState("57P02")
    package static let cannotConnectNow = SQLState("57P03")
    package static let lockNotAvailable = SQLState("55P03")
    package static let queryCanceled = SQLState("57014")
    package static let featureNotSupported = SQLState("0A000")
    package static let readOnlyTransaction = SQLState("25006")
    package static let invalidStatementName = SQLState("26000")

    /// Our own: the program is older than the newest breaking migration (`repricer.allow_program`).
    package static let programTooOld = SQLState("RP001")

    /// Whether it is of class 08, or the server is shutting down or starting.
    package var isConnectionException: Bool {
        classCode == "08" || self == .adminShutdown || self == .crashShutdown
            || self == .cannotConnectNow
    }

    /// Whether it is of class 23: a constraint refused the row.
    package var isIntegrityConstraintViolation: Bool { classCode == "23" }

    /// Whether it is of class 22: a value did not fit its type.
    package var isDataException: Bool { classCode == "22" }

    /// Whether it is of class 53: memory, disk or connections ran out.
    package var isInsufficientResources: Bool { classCode == "53" }

    /// Whether the same transaction, run again from its start, may succeed.
    package var isTransactionRetryable: Bool {
        self == .serializationFailure || self == .deadlockDetected
    }
}
