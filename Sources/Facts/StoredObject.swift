import JSON
import Pricing

/// A value that is kept as a JSON object, as `subscription_events.statement`, in `subscriptions` and in
/// `subscription_checkpoints.rest`. One list of fields serves both directions, so no field is written that is not read.
///
/// It is not `Codable` because of speed: a fold writes thousands a second, a late statement reads all of a
/// subscription's, and a plan reads half a million. A general coder takes ten times as long.
protocol StoredObject: SendableMetatype {
    /// The value with which reading starts. Reading replaces each of its fields, or refuses the object.
    static var unread: Self { get }

    /// Passes each field, in the order in which it is written.
    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure)
}

/// One pass over the fields of an object, to read or to write them. An optional field may be absent, and is then nil;
/// any other must be present.
protocol FieldPass {
    associatedtype Failure: Error

    mutating func field(_ name: StaticString, _ value: inout String?) throws(Failure)
    mutating func field(_ name: StaticString, _ value: inout String) throws(Failure)
    mutating func field(_ name: StaticString, _ value: inout Int64?) throws(Failure)
    mutating func field(_ name: StaticString, _ value: inout Int64) throws(Failure)
    mutating func field(_ name: StaticString, _ value: inout Bool?) throws(Failure)
    mutating func field(_ name: StaticString, _ value: inout Bool) throws(Failure)
    mutating func field(_ name: StaticString, _ value: inout [String]?) throws(Failure)
    mutating func field(_ name: StaticString, _ value: inout [String]) throws(Failure)
    mutating func field<Word: RawRepresentable<String>>(
        _ name: StaticString, _ value: inout Word?
    ) throws(Failure)
    mutating func field<Word: RawRepresentable<String>>(
        _ name: StaticString, _ value: inout Word
    ) throws(Failure)
    mutating func field<Object: StoredObject>(
        _ name: StaticString, _ value: inout Object?
    ) throws(Failure)
    mutating func field<Object: StoredObject>(
        _ name: StaticString, _ value: inout Object
    ) throws(Failure)
    mutating func field<Object: StoredObject>(
        _ name: StaticString, _ value: inout [Object]?
    ) throws(Failure)
    mutating func field<Object: StoredObject>(
        _ name: StaticString, _ value: inout [Object]
    ) throws(Failure)

    /// Signed details, which are absent where there are none.
    mutating func details(
        _ name: StaticString, _ value: inout SignedDetails, _ known: [SignedDetails.Field]
    ) throws(Failure)
}

extension FieldPass {
    mutating func field(_ name: StaticString, _ value: inout Int?) throws(Failure) {
        var number = value.map { Int64($0) }
        try field(name, &number)
        value = number.map { Int(clamping: $0) }
    }

    mutating func field(_ name: StaticString, _ value: inout Int) throws(Failure) {
        var number = Int64(value)
        try field(name, &number)
        value = Int(clamping: number)
    }

    mutating func field(_ name: StaticString, _ value: inout Instant?) throws(Failure) {
        var number = value?.milliseconds
        try field(name, &number)
        value = number.map(Instant.init(milliseconds:))
    }

    mutating func field(_ name: StaticString, _ value: inout Instant) throws(Failure) {
        var number = value.milliseconds
        try field(name, &number)
        value = Instant(milliseconds: number)
    }

    /// A flag that is absent where it is false.
    mutating func mark(_ name: StaticString, _ value: inout Bool) throws(Failure) {
        var mark = value ? true : nil
        try field(name, &mark)
        value = mark ?? false
    }

    /// A list that is absent where it is empty.
    mutating func sparse<Object: StoredObject>(
        _ name: StaticString, _ value: inout [Object]
    ) throws(Failure) {
        var list = value.isEmpty ? nil : value
        try field(name, &list)
        value = list ?? []
    }
}

/// The JSON of stored objects.
enum StoredJSON {
    static func text(_ value: some StoredObject) -> String {
        var fields = FieldWriting()
        fields.write(value)
        return fields.json.text
    }

    static func text(_ values: [some StoredObject]) -> String {
        var fields = FieldWriting()
        fields.write(values)
        return fields.json.text
    }

    static func object<Object: StoredObject>(
        _ node: JSONNode
    ) throws(JSONRecord.Fault) -> Object {
        try FieldReading.object(JSONRecord(node))
    }

    static func objects<Object: StoredObject>(
        _ node: JSONNode
    ) throws(JSONRecord.Fault) -> [Object] {
        try FieldReading.objects(JSONRecord.all(node))
    }
}
