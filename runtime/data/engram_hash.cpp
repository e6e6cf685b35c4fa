#include "runtime/data/engram_hash.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "kernels/base/check.hpp"
#include "runtime/data/pcg64.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* engram_component = "data.engram";
constexpr std::int64_t largest_id = std::numeric_limits<std::int32_t>::max();

bool is_prime(std::int64_t n) {
  if (n < 4) return n >= 2;
  if (n % 2 == 0) return false;
  for (std::int64_t divisor = 3; divisor * divisor <= n; divisor += 2)
    if (n % divisor == 0) return false;
  return true;
}

void check_engram(const EngramShape& shape, std::int64_t vocabulary) {
  const auto expect = [](bool fits, const char* name, std::int64_t value, const char* expected) {
    MILLRACE_CHECK(fits, ExitCode::model, engram_component, "{} = {}, expected {}", name, value, expected);
  };
  expect(shape.max_ngram >= 2, "engram_max_ngram_size", shape.max_ngram, "2 or more");
  expect(shape.heads >= 1, "engram_num_heads", shape.heads, "1 or more");
  expect(vocabulary >= 1 && vocabulary <= largest_id, "compressed vocabulary", vocabulary, "1 to 2147483647 ids");
  MILLRACE_CHECK(static_cast<std::int64_t>(shape.bases.size()) == shape.max_ngram - 1, ExitCode::model, engram_component,
                 "engram_vocab_bases has {} entries, expected {}, one for each order from 2 to engram_max_ngram_size", shape.bases.size(),
                 shape.max_ngram - 1);
  for (const std::int64_t base : shape.bases) expect(base >= 1 && base <= largest_id, "engram_vocab_bases", base, "1 to 2147483647 rows");
  std::set<std::int64_t> seen;
  for (const std::int64_t layer : shape.layers)
    expect(layer >= 0 && seen.insert(layer).second, "engram_layers", layer, "different layers, counted from 0");
}

std::vector<std::int32_t> multipliers_of(const EngramShape& shape, std::int64_t layer, std::int64_t vocabulary) {
  const auto half = static_cast<std::uint32_t>(std::max<std::int64_t>(1, largest_id / vocabulary / 2));
  Pcg64 generator(shape.seed + 10007 * static_cast<std::uint64_t>(layer));
  std::vector<std::int32_t> multipliers;
  for (std::int64_t j = 0; j < shape.max_ngram; ++j) multipliers.push_back(static_cast<std::int32_t>(2 * generator.below(half) + 1));
  return multipliers;
}

}  // namespace

void EngramHash::fill(std::span<const std::int32_t> tokens, std::int32_t padding, std::span<std::int32_t> ids) const {
  const std::size_t orders = multipliers.size() - 1, heads = rows.size() / orders;
  MILLRACE_CHECK(ids.size() == tokens.size() * rows.size(), ExitCode::internal, engram_component, "{} ids, expected {} tokens times {}",
                 ids.size(), tokens.size(), rows.size());
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    std::uint32_t hash = 0;  // wraps around as int32 does in MaxText
    for (std::size_t j = 0; j <= orders; ++j) {
      const std::int32_t token = j <= t ? tokens[t - j] : padding;
      hash ^= static_cast<std::uint32_t>(token) * static_cast<std::uint32_t>(multipliers[j]);
      for (std::size_t head = 0; j > 0 && head < heads; ++head) {
        const std::size_t table = (j - 1) * heads + head;
        const std::int32_t rest = static_cast<std::int32_t>(hash) % rows[table];
        ids[t * rows.size() + table] = rest < 0 ? rest + rows[table] : rest;
      }
    }
  }
}

std::int64_t EngramHash::all_rows() const { return std::accumulate(rows.begin(), rows.end(), std::int64_t{0}); }

std::vector<EngramHash> engram_hashes(const EngramShape& shape, std::int64_t vocabulary) {
  check_engram(shape, vocabulary);
  std::vector<EngramHash> hashes;
  std::set<std::int64_t> used;
  for (const std::int64_t layer : shape.layers) {
    EngramHash hash{.multipliers = multipliers_of(shape, layer, vocabulary)};
    std::int64_t sum = 0;
    for (const std::int64_t base : shape.bases) {
      std::int64_t next = base;
      for (std::int64_t head = 0; head < shape.heads; ++head) {
        while (!is_prime(next) || used.contains(next)) ++next;
        sum += next;
        MILLRACE_CHECK(sum <= largest_id, ExitCode::model, engram_component,
                       "the tables of layer {} have {} rows or more, expected at most {}, which 32-bit ids can name; a smaller "
                       "engram_vocab_bases or engram_num_heads makes them fit",
                       layer, sum, largest_id);
        used.insert(next);
        hash.rows.push_back(static_cast<std::int32_t>(next++));
      }
    }
    hashes.push_back(std::move(hash));
  }
  return hashes;
}

}  // namespace millrace::runtime
