import JSON
import Pricing

/// Writes fields. A value is copied for it, and stays as it is.
struct FieldWriting: FieldPass {
    private(set) var json = JSONWriter()

    mutating func write(_ value: some StoredObject) {
        json.open(UInt8(ascii: "{"))
        var value = value
        value.pass(&self)
        json.close(UInt8(ascii: "}"))
    }

    mutating func write(_ values: [some StoredObject]) {
        json.open(UInt8(ascii: "["))
        for value in values { write(value) }
        json.close(UInt8(ascii: "]"))
    }

    mutating func field(_ name: StaticString, _ value: inout String?) { json.text(name, value) }

    mutating func field(_ name: StaticString, _ value: inout String) { json.text(name, value) }

    mutating func field(_ name: StaticString, _ value: inout Int64?) { json.number(name, value) }

    mutating func field(_ name: StaticString, _ value: inout Int64) { json.number(name, value) }

    mutating func field(_ name: StaticString, _ value: inout Bool?) { json.flag(name, value) }

    mutating func field(_ name: StaticString, _ value: inout Bool) { json.flag(name, value) }

    mutating func field(_ name: StaticString, _ value: inout [String]?) {
        if let value { json.texts(name, value) }
    }

    mutating func field(_ name: StaticString, _ value: inout [String]) { json.texts(name, value) }

    mutating func field<Word: RawRepresentable<String>>(
        _ name: StaticString, _ value: inout Word?
    ) {
        json.text(name, value?.rawValue)
    }

    mutating func field<Word: RawRepresentable<String>>(_ name: StaticString, _ value: inout Word) {
        json.text(name, value.rawValue)
    }

    mutating func field<Object: StoredObject>(_ name: StaticString, _ value: inout Object?) {
        if var present = value { field(name, &present) }
    }

    mutating func field<Object: StoredObject>(_ name: StaticString, _ value: inout Object) {
        json.label(name)
        write(value)
    }

    mutating func field<Object: StoredObject>(_ name: StaticString, _ value: inout [Object]?) {
        if var present = value { field(name, &present) }
    }

    mutating func field<Object: StoredObject>(_ name: StaticString, _ value: inout [Object]) {
        json.label(name)
        write(value)
    }

    mutating func details(
        _ name: StaticString, _ value: inout SignedDetails, _ known: [SignedDetails.Field]
    ) {
        guard !value.isEmpty else { return }
        json.label(name)
        value.write(&json)
    }
}
