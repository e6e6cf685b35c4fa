#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace::runtime {

/// What the hashes of n-grams depend on, as MaxText's keys engram_… give it. The tables of an n-gram memory (Engram) have prime numbers of
/// rows: one table for each layer, order of n-gram (2 to max_ngram) and head.
struct EngramShape {
  std::vector<std::int64_t> layers;  // with a memory, global indices, in the order in which primes are given out
  std::int64_t max_ngram = 3;        // 2 or more
  std::int64_t heads = 8;            // of each order
  std::vector<std::int64_t> bases;   // the least rows of a table, one for each order
  std::uint64_t seed = 0;
};

/// The hash of one layer.
struct EngramHash {
  std::vector<std::int32_t> multipliers;  // odd, one for each place of an n-gram, the token's own first
  std::vector<std::int32_t> rows;         // of each table: orders one after the other, each with its heads

  /// The rows that each token of a row of text looks up, ids [S, rows.size()]: for the token at t and the order n the xor of
  /// tokens[t − j] · multipliers[j] over j < n, modulo the rows of each head's table, never negative. `tokens` [S] are compressed ids;
  /// before the row's first token stands `padding`. Documents of a packed row see each other, as in MaxText. Allocates nothing; any thread.
  void fill(std::span<const std::int32_t> tokens, std::int32_t padding, std::span<std::int32_t> ids) const;
  /// The rows of all tables together.
  [[nodiscard]] std::int64_t all_rows() const;
};

/// The hash of each of shape.layers. A table has the next prime number of rows from its order's base, or from one above the table before
/// it, that no earlier table of any layer has. Multipliers are drawn by NumPy's generator with the seed shape.seed + 10007 · layer, so that
/// products of ids below `vocabulary`, the number of compressed ids, stay below 2³¹. Throws Error(model) naming the member that does not
/// fit, or the layer whose tables have more rows than 32-bit ids can name.
[[nodiscard]] std::vector<EngramHash> engram_hashes(const EngramShape& shape, std::int64_t vocabulary);

}  // namespace millrace::runtime
