import FoldStories
import Foundation

/// Folds random orders of random stories: `fold-orders [COUNT] [SEED]`; 1 where one ends differently.
let arguments = CommandLine.arguments.dropFirst().compactMap { UInt64($0) }
let count = Int(arguments.first ?? 100_000)
let seed = arguments.dropFirst().first ?? UInt64.random(in: 0...UInt64(UInt32.max))
let start = ContinuousClock.now
let difference = FoldOrders.firstDifference(count: count, seed: seed)
let seconds = (ContinuousClock.now - start).components.seconds
print("\(count) orders, seed \(seed), \(seconds) s: \(difference ?? "all end the same")")
exit(difference == nil ? 0 : 1)
