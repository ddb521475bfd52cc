/// The known word that a mistyped one was most likely meant to be; nil when none is near.
///
/// Near means: at most a third of the letters changed, or the start of exactly one known word.
func nearest(to word: String, among known: [String]) -> String? {
    guard !word.isEmpty, word.count <= 64 else { return nil }
    let begun = known.filter { $0.hasPrefix(word) }
    if begun.count == 1 { return begun.first }
    let ranked = known.map { (distance: editDistance(word, $0), word: $0) }
        .filter { $0.distance <= max(1, max(word.count, $0.word.count) / 3) }
        .min { ($0.distance, $0.word) < ($1.distance, $1.word) }
    return ranked?.word
}

/// The number of letters to insert, delete, replace or swap with their neighbour to change one text into the other.
func editDistance(_ left: String, _ right: String) -> Int {
    let (left, right) = (Array(left), Array(right))
    var beforeLast: [Int] = []
    var last = Array(0...right.count)
    for (row, a) in left.enumerated() {
        var current = [row + 1]
        for (column, b) in right.enumerated() {
            var best = min(
                last[column] + (a == b ? 0 : 1), last[column + 1] + 1, current[column] + 1)
            let isSwap = row > 0 && column > 0 && a == right[column - 1] && left[row - 1] == b
            if isSwap { best = min(best, beforeLast[column - 1] + 1) }
            current.append(best)
        }
        (beforeLast, last) = (last, current)
    }
    return last[right.count]
}
