#include "layers/engram_hash.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "kernels/base/check.hpp"
#include "layers/pcg64.hpp"

namespace millrace::layers {
namespace {

constexpr const char* engram_component = "layers.engram";
constexpr std::int64_t largest_row_id = std::numeric_limits<std::int32_t>::max();

bool is_prime(std::int64_t n) {
  if (n < 4) return n >= 2;
  if (n % 2 == 0) return false;
  for (std::int64_t divisor = 3; divisor * divisor <= n; divisor += 2)
    if (n % divisor == 0) return false;
  return true;
}

void check_engram(const EngramConfig& config) {
  const auto expect = [](bool fits, const char* key, std::int64_t value, std::string_view expected) {
    MILLRACE_CHECK(fits, ExitCode::model, engram_component, "{} = {}, expected {}", key, value, expected);
  };
  expect(config.max_ngram >= 2 && config.max_ngram <= kernels::max_ngram, "engram_max_ngram_size", config.max_ngram,
         fmt::format("2 to {}", kernels::max_ngram));
  const std::int64_t orders = config.max_ngram - 1;
  expect(config.heads >= 1 && config.heads * orders <= kernels::max_ngram_tables, "engram_num_heads", config.heads,
         fmt::format("1 to {} with {} orders", kernels::max_ngram_tables / orders, orders));
  expect(config.head_dim >= 1, "engram_head_dim", config.head_dim, "1 or more");
  expect(config.compressed_vocab_size >= 1 && config.compressed_vocab_size <= largest_row_id, "engram_compressed_vocab_size",
         config.compressed_vocab_size, "the number of compressed ids, which `millrace data compress` prints");
  expect(config.compressed_pad_id >= 0 && config.compressed_pad_id < config.compressed_vocab_size, "engram_compressed_pad_id",
         config.compressed_pad_id, fmt::format("0 to {}", config.compressed_vocab_size - 1));
  expect(config.seed >= 0, "engram_seed", config.seed, "0 or more");
  MILLRACE_CHECK(static_cast<std::int64_t>(config.vocab_bases.size()) == orders, ExitCode::model, engram_component,
                 "engram_vocab_bases has {} entries, expected {}, one for each order from 2 to engram_max_ngram_size",
                 config.vocab_bases.size(), orders);
  for (const std::int64_t base : config.vocab_bases)
    expect(base >= 1 && base <= largest_row_id, "engram_vocab_bases", base, "1 to 2147483647 rows");
  std::set<std::int64_t> seen;
  for (const std::int64_t layer : config.layers)
    expect(layer >= 0 && seen.insert(layer).second, "engram_layers", layer, "different layers, counted from 0");
}

std::vector<std::int32_t> multipliers_of(const EngramConfig& config, std::int64_t layer) {
  const auto half = static_cast<std::uint32_t>(std::max<std::int64_t>(1, largest_row_id / config.compressed_vocab_size / 2));
  Pcg64 generator(static_cast<std::uint64_t>(config.seed) + 10007 * static_cast<std::uint64_t>(layer));
  std::vector<std::int32_t> multipliers;
  for (std::int64_t j = 0; j < config.max_ngram; ++j) multipliers.push_back(static_cast<std::int32_t>(2 * generator.below(half) + 1));
  return multipliers;
}

}  // namespace

std::int64_t all_rows(const kernels::NgramOptions& hash) { return std::accumulate(hash.rows.begin(), hash.rows.end(), std::int64_t{0}); }

std::vector<kernels::NgramOptions> engram_hashes(const EngramConfig& config) {
  check_engram(config);
  std::vector<kernels::NgramOptions> hashes;
  std::set<std::int64_t> used;
  for (const std::int64_t layer : config.layers) {
    kernels::NgramOptions hash{.padding = static_cast<std::int32_t>(config.compressed_pad_id),
                               .multipliers = multipliers_of(config, layer)};
    std::int64_t sum = 0;
    for (const std::int64_t base : config.vocab_bases) {
      std::int64_t next = base;
      for (std::int64_t head = 0; head < config.heads; ++head) {
        while (!is_prime(next) || used.contains(next)) ++next;
        sum += next;
        MILLRACE_CHECK(sum <= largest_row_id, ExitCode::model, engram_component,
                       "the tables of layer {} have {} rows or more, expected at most {}, which 32-bit ids can name; a smaller "
                       "engram_vocab_bases or engram_num_heads makes them fit",
                       layer, sum, largest_row_id);
        used.insert(next);
        hash.rows.push_back(static_cast<std::int32_t>(next++));
      }
    }
    hashes.push_back(std::move(hash));
  }
  return hashes;
}

}  // namespace millrace::layers
