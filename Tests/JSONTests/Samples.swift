import JSON

func read(_ text: String) -> JSONNode? { JSONDocument.read(Array(text.utf8)) }

func fault(_ bytes: [UInt8], _ limits: JSONDocument.Limits = JSONDocument.Limits()) -> JSONFault? {
    do throws(JSONFault) {
        _ = try JSONDocument(bytes, limits: limits)
        return nil
    } catch {
        return error
    }
}

func fault(_ text: String) -> JSONFault? { fault(Array(text.utf8)) }

/// Every kind of value, name, blank and escape.
let sample = """
    { "items":[ {"SKU":"A\\u00e9\\ud83d\\ude00\\n","price":-1299.50e+1,"on":true},\t{},[],[[]] ],
      "né€😀":null, "":false , "n":0, "long":"0123456789abcdef0123456789\\\\abcdef" }
    """
