#include "layers/formats/maxtext/engram.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "layers/engram_hash.hpp"

namespace millrace::layers {
namespace {

constexpr std::int64_t largest_number = std::numeric_limits<std::int32_t>::max();

std::vector<std::int64_t> read_integers(const runtime::JsonReader& reader, std::string_view key, std::int64_t least) {
  std::vector<std::int64_t> integers;
  if (reader.find(key) == nullptr) return integers;
  for (const runtime::JsonReader& entry : reader.member(key).elements()) integers.push_back(entry.integer(least, largest_number));
  return integers;
}

/// Compares the numbers that follow from the config with those of the file.
void check_hashes(const runtime::JsonReader& reader, const EngramConfig& engram) {
  const std::vector<kernels::NgramOptions> hashes = engram_hashes(engram);
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    runtime::Json tables = runtime::Json::array();
    for (std::size_t table = 0; table < hashes[i].rows.size(); ++table) {
      if (table % static_cast<std::size_t>(engram.heads) == 0) tables.push_back(runtime::Json::array());
      tables.back().push_back(hashes[i].rows[table]);
    }
    for (const auto& [name, expected] :
         {std::pair{"multipliers", runtime::Json(hashes[i].multipliers)}, std::pair{"primes", std::move(tables)}}) {
      const std::string key = fmt::format("engram_{}_layer_{}", name, engram.layers[i]);
      const runtime::Json* found = reader.find(key);
      if (found != nullptr && *found != expected)
        reader.refuse(key, fmt::format("expected {}, which follow from the other keys engram_…", expected.dump()));
    }
  }
}

}  // namespace

void read_maxtext_engram(runtime::JsonReader& reader, const MaxTextFile& file, ModelConfig& model) {
  if (!file.engram) return;
  EngramConfig engram;
  engram.layers = read_integers(reader, "engram_layers", 0);
  if (engram.layers.empty()) return;
  engram.max_ngram = reader.size("engram_max_ngram_size", kernels::max_ngram, engram.max_ngram);
  engram.heads = reader.size("engram_num_heads", kernels::max_ngram_tables, engram.heads);
  engram.head_dim = reader.size("engram_head_dim", 1 << 20, engram.head_dim);
  engram.vocab_bases = read_integers(reader, "engram_vocab_bases", 1);
  engram.kernel_size = reader.size("engram_kernel_size", 64, engram.kernel_size);
  engram.seed = reader.integer("engram_seed", 0, largest_number).value_or(0);
  if (reader.find("engram_compressed_vocab_size") == nullptr)
    reader.refuse("engram_layers",
                  "expected engram_compressed_vocab_size and engram_compressed_pad_id beside it, which `millrace data compress` prints for "
                  "the model's tokenizer");
  engram.compressed_vocab_size = reader.size("engram_compressed_vocab_size", largest_number);
  engram.compressed_pad_id = reader.integer("engram_compressed_pad_id", 0, largest_number).value_or(0);
  check_hashes(reader, engram);
  model.engram = std::move(engram);
}

void write_maxtext_engram(runtime::OrderedJson& json, const MaxTextFile& file, const ModelConfig& model) {
  if (!file.engram) return;
  const EngramConfig& engram = model.engram;
  json["engram_layers"] = engram.layers;
  if (engram.layers.empty()) return;
  json["engram_max_ngram_size"] = engram.max_ngram;
  json["engram_num_heads"] = engram.heads;
  json["engram_head_dim"] = engram.head_dim;
  json["engram_vocab_bases"] = engram.vocab_bases;
  json["engram_kernel_size"] = engram.kernel_size;
  json["engram_seed"] = engram.seed;
  json["engram_compressed_vocab_size"] = engram.compressed_vocab_size;
  json["engram_compressed_pad_id"] = engram.compressed_pad_id;
}

}  // namespace millrace::layers
