import JSON
import Pricing

/// Reads fields, as strictly as they were written.
struct FieldReading: FieldPass {
    private let record: JSONRecord

    static func object<Object: StoredObject>(
        _ record: JSONRecord
    ) throws(JSONRecord.Fault) -> Object {
        var fields = FieldReading(record: record)
        var object = Object.unread
        try object.pass(&fields)
        return object
    }

    static func objects<Object: StoredObject>(
        _ records: [JSONRecord]
    ) throws(JSONRecord.Fault) -> [Object] {
        var objects: [Object] = []
        objects.reserveCapacity(records.count)
        for record in records { objects.append(try object(record)) }
        return objects
    }

    func field(_ name: StaticString, _ value: inout String?) throws(JSONRecord.Fault) {
        value = try record.textOrNil(name)
    }

    func field(_ name: StaticString, _ value: inout String) throws(JSONRecord.Fault) {
        value = try record.text(name)
    }

    func field(_ name: StaticString, _ value: inout Int64?) throws(JSONRecord.Fault) {
        value = try record.int64OrNil(name)
    }

    func field(_ name: StaticString, _ value: inout Int64) throws(JSONRecord.Fault) {
        value = try record.int64(name)
    }

    func field(_ name: StaticString, _ value: inout Bool?) throws(JSONRecord.Fault) {
        value = try record.boolOrNil(name)
    }

    func field(_ name: StaticString, _ value: inout Bool) throws(JSONRecord.Fault) {
        value = try record.bool(name)
    }

    func field(_ name: StaticString, _ value: inout [String]?) throws(JSONRecord.Fault) {
        value = try record.textsOrNil(name)
    }

    func field(_ name: StaticString, _ value: inout [String]) throws(JSONRecord.Fault) {
        value = try record.texts(name)
    }

    func field<Word: RawRepresentable<String>>(
        _ name: StaticString, _ value: inout Word?
    ) throws(JSONRecord.Fault) {
        value = try record.wordOrNil(name)
    }

    func field<Word: RawRepresentable<String>>(
        _ name: StaticString, _ value: inout Word
    ) throws(JSONRecord.Fault) {
        value = try record.word(name)
    }

    func field<Object: StoredObject>(
        _ name: StaticString, _ value: inout Object?
    ) throws(JSONRecord.Fault) {
        value = try record.recordOrNil(name).map(Self.object)
    }

    func field<Object: StoredObject>(
        _ name: StaticString, _ value: inout Object
    ) throws(JSONRecord.Fault) {
        value = try Self.object(record.record(name))
    }

    func field<Object: StoredObject>(
        _ name: StaticString, _ value: inout [Object]?
    ) throws(JSONRecord.Fault) {
        value = try record.recordsOrNil(name).map(Self.objects)
    }

    func field<Object: StoredObject>(
        _ name: StaticString, _ value: inout [Object]
    ) throws(JSONRecord.Fault) {
        value = try Self.objects(record.records(name))
    }

    func details(
        _ name: StaticString, _ value: inout SignedDetails, _ known: [SignedDetails.Field]
    ) throws(JSONRecord.Fault) {
        value = try record.objectOrNil(name).map { SignedDetails($0, known) } ?? SignedDetails()
    }
}
