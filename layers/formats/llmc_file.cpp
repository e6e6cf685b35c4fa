#include "layers/formats/llmc_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <map>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "layers/formats/stored_elements.hpp"
#include "layers/models/model.hpp"

namespace millrace::layers {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are read as they are");

constexpr const char* llmc_component = "layers.llmc_file";
constexpr std::string_view llmc_family = "gpt2";  // the only family that the format supports
constexpr std::int32_t magic = 20240326;
constexpr std::int32_t version_f32 = 3, version_bf16 = 5;
constexpr double epsilon = 1e-5;
constexpr std::int64_t padding = 128;
using Header = std::array<std::int32_t, 256>;

/// One tensor of the file, or one kind of tensor that exists per layer, in the order of the file.
struct Entry {
  const char* name;  // for a layer's tensor, without the prefix "transformer.h.{}."
  bool in_layers;
  std::int64_t rows, columns;  // as stored
  bool transposed = false;     // in our programs, relative to the file
};

std::array<Entry, 16> entries_of(const ModelConfig& model, std::int64_t padded) {
  const std::int64_t width = model.hidden_size, inner = model.intermediate_size;
  return {{{"transformer.wte.weight", false, padded, width},
           {"transformer.wpe.weight", false, model.max_position_embeddings, width},
           {"ln_1.weight", true, 1, width},
           {"ln_1.bias", true, 1, width},
           {"attn.c_attn.weight", true, 3 * width, width, true},
           {"attn.c_attn.bias", true, 1, 3 * width},
           {"attn.c_proj.weight", true, width, width, true},
           {"attn.c_proj.bias", true, 1, width},
           {"ln_2.weight", true, 1, width},
           {"ln_2.bias", true, 1, width},
           {"mlp.c_fc.weight", true, inner, width, true},
           {"mlp.c_fc.bias", true, 1, inner},
           {"mlp.c_proj.weight", true, width, inner, true},
           {"mlp.c_proj.bias", true, 1, width},
           {"transformer.ln_f.weight", false, 1, width},
           {"transformer.ln_f.bias", false, 1, width}}};
}

std::string name_of(const Entry& entry, std::int64_t layer) {
  return entry.in_layers ? fmt::format("transformer.h.{}.{}", layer, entry.name) : entry.name;
}

std::int64_t width_of(kernels::DType dtype) { return dtype == kernels::DType::bf16 ? 2 : 4; }

Header read_header(const runtime::File& file) {
  Header header{};
  MILLRACE_CHECK(file.size() >= sizeof header, ExitCode::model, llmc_component, "{}: {}, expected a header of {} or more", file.path(),
                 byte_count(file.size()), sizeof header);
  file.read_at(0, std::as_writable_bytes(std::span(header)), ExitCode::model);
  MILLRACE_CHECK(header[0] == magic, ExitCode::model, llmc_component, "{}: begins with {}, expected {}", file.path(), header[0], magic);
  MILLRACE_CHECK(header[1] == version_f32 || header[1] == version_bf16, ExitCode::model, llmc_component,
                 "{}: version {}, expected {} (fp32) or {} (bf16)", file.path(), header[1], version_f32, version_bf16);
  return header;
}

kernels::DType dtype_of(const Header& header) { return header[1] == version_bf16 ? kernels::DType::bf16 : kernels::DType::f32; }

ModelConfig model_of(const runtime::File& file, const Header& header) {
  const auto field = [&](std::size_t index, const char* name, std::int32_t least, std::int32_t most) {
    MILLRACE_CHECK(header[index] >= least && header[index] <= most, ExitCode::model, llmc_component, "{}: {} = {}, expected {} to {}",
                   file.path(), name, header[index], least, most);
    return std::int64_t{header[index]};
  };
  ModelConfig model;
  model.family = llmc_family;
  model.max_position_embeddings = field(2, "max_seq_len", 1, 1 << 30);
  model.vocab_size = field(3, "vocab_size", 1, 1 << 26);
  model.layers = field(4, "num_layers", 1, max_layers);
  model.heads = field(5, "num_heads", 1, 1 << 16);
  model.hidden_size = field(6, "channels", 1, 1 << 20);
  const std::int64_t padded = field(7, "padded_vocab_size", 1, 1 << 27);
  MILLRACE_CHECK(padded >= model.vocab_size, ExitCode::model, llmc_component,
                 "{}: padded_vocab_size = {}, expected vocab_size = {} or more", file.path(), padded, model.vocab_size);
  MILLRACE_CHECK(model.hidden_size % model.heads == 0, ExitCode::model, llmc_component,
                 "{}: num_heads = {}, which does not divide channels = {}", file.path(), model.heads, model.hidden_size);
  model.kv_heads = model.heads;
  model.head_dim = model.hidden_size / model.heads;
  model.intermediate_size = 4 * model.hidden_size;
  model.rms_norm_eps = epsilon;
  model.tie_word_embeddings = true;
  // At most 12 · 2^40 · 2^12 elements in layers and 2^50 in tables: the sum fits.
  std::int64_t elements = 0;
  for (const Entry& entry : entries_of(model, padded)) elements += entry.rows * entry.columns * (entry.in_layers ? model.layers : 1);
  const auto expected = sizeof header + static_cast<std::uint64_t>(elements * width_of(dtype_of(header)));
  MILLRACE_CHECK(file.size() == expected, ExitCode::model, llmc_component, "{}: {}, expected {} by its header", file.path(),
                 byte_count(file.size()), expected);
  return model;
}

}  // namespace

bool is_llmc_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) || error) return false;
  try {
    const auto file = runtime::File::open(path, true, ExitCode::model);
    std::array<std::int32_t, 1> first{};
    if (file.size() < sizeof first) return false;
    file.read_at(0, std::as_writable_bytes(std::span(first)), ExitCode::model);
    return first[0] == magic;
  } catch (const Error&) {
    return false;  // the reader reports why
  }
}

ModelConfig read_llmc_config(const std::string& path) {
  const auto file = runtime::File::open(path, true, ExitCode::model);
  return model_of(file, read_header(file));
}

LlmcWeights::LlmcWeights(const std::string& path, const ModelConfig& config) : file_(runtime::File::open(path, true, ExitCode::model)) {
  const Header header = read_header(file_);
  model_ = model_of(file_, header);
  padded_ = header[7];
  dtype_ = dtype_of(header);
  MILLRACE_CHECK(config.family == llmc_family && config.tie_word_embeddings, ExitCode::model, llmc_component,
                 "{}: a tied GPT-2, expected a model of {}{}", path, config.family,
                 config.tie_word_embeddings ? "" : " with a head of its own");
  const auto same = [&](const char* key, std::int64_t found, std::int64_t expected) {
    MILLRACE_CHECK(found == expected, ExitCode::model, llmc_component, "{}: {} = {}, expected {}", path, key, found, expected);
  };
  same("vocab_size", model_.vocab_size, config.vocab_size);
  same("hidden_size", model_.hidden_size, config.hidden_size);
  same("intermediate_size", model_.intermediate_size, config.intermediate_size);
  same("layers", model_.layers, config.layers);
  same("max_position_embeddings", model_.max_position_embeddings, config.max_position_embeddings);
}

void LlmcWeights::read(const ParameterSpec& spec, std::span<float> destination) const {
  std::uint64_t offset = sizeof(Header);
  for (const Entry& entry : entries_of(model_, padded_)) {
    const std::int64_t size = entry.rows * entry.columns * width_of(dtype_);
    if (spec.name != name_of(entry, spec.layer)) {
      offset += static_cast<std::uint64_t>(size * (entry.in_layers ? model_.layers : 1));
      continue;
    }
    if (entry.in_layers) offset += static_cast<std::uint64_t>(size * spec.layer);
    const auto elements = static_cast<std::size_t>(spec.shape.elements());
    MILLRACE_CHECK(destination.size() == elements && elements <= static_cast<std::size_t>(entry.rows * entry.columns), ExitCode::internal,
                   llmc_component, "{}: {} elements of {}, expected {}", file_.path(), destination.size(), spec.name, elements);
    std::vector<std::byte> bytes(elements * static_cast<std::size_t>(width_of(dtype_)));
    file_.read_at(offset, bytes, ExitCode::model);
    runtime::convert(runtime::file_dtype(dtype_), bytes, destination);
    if (entry.transposed) std::ranges::copy(transposed(destination, entry.rows, entry.columns), destination.begin());
    return;
  }
  fail(ExitCode::model, llmc_component, "{}: the format has no {}", file_.path(), spec.name);
}

void write_llmc_file(const std::string& path, const ModelConfig& config, kernels::DType dtype, const ParameterReader& reader) {
  const auto fits = [&](bool holds, const char* key, const auto& value, std::string_view expected) {
    MILLRACE_CHECK(holds, ExitCode::model, llmc_component, "{}: llm.c's format cannot express model.{} = {}, expected {}", path, key, value,
                   expected);
  };
  fits(config.family == llmc_family, "family", config.family, llmc_family);
  fits(config.tie_word_embeddings, "tie_word_embeddings", config.tie_word_embeddings, "true");
  fits(config.intermediate_size == 4 * config.hidden_size, "intermediate_size", config.intermediate_size, "4 times hidden_size");
  fits(config.causal, "causal", config.causal, "true");
  const kernels::Activation activation = config.hidden_act.value_or(kernels::Activation::gelu);
  fits(activation == kernels::Activation::gelu, "hidden_act", to_string(activation), "gelu");
  fits(!config.scale_by_layer, "scale_by_layer", config.scale_by_layer, "false");
  const bool by_head = config.query_pre_attn_scalar == 0 || config.query_pre_attn_scalar == static_cast<double>(config.head_dim);
  fits(by_head, "query_pre_attn_scalar", config.query_pre_attn_scalar, "that of head_dim");
  fits(config.rms_norm_eps == epsilon, "rms_norm_eps", config.rms_norm_eps, "1e-05");
  std::map<std::string, ParameterSpec, std::less<>> specs;
  for (ParameterSpec& spec : model_parameters(config)) specs.emplace(spec.name, std::move(spec));

  const std::int64_t padded = (config.vocab_size + padding - 1) / padding * padding;
  Header header{magic,
                dtype == kernels::DType::bf16 ? version_bf16 : version_f32,
                static_cast<std::int32_t>(config.max_position_embeddings),
                static_cast<std::int32_t>(config.vocab_size),
                static_cast<std::int32_t>(config.layers),
                static_cast<std::int32_t>(config.heads),
                static_cast<std::int32_t>(config.hidden_size),
                static_cast<std::int32_t>(padded)};
  const auto write_one = [&](runtime::File& file, const Entry& entry, std::int64_t layer) {
    const auto sink = [&](std::span<const std::byte> bytes) { file.write(bytes); };
    const auto elements = reader(specs.at(name_of(entry, layer)));
    if (entry.transposed) {
      write_elements(transposed(elements, entry.columns, entry.rows), runtime::file_dtype(dtype), sink);
    } else {
      write_elements(elements, runtime::file_dtype(dtype), sink);
    }
    const auto rest = static_cast<std::size_t>(entry.rows * entry.columns) - elements.size();
    file.write(std::vector<std::byte>(rest * static_cast<std::size_t>(width_of(dtype))));
  };
  const std::string temporary = path + ".tmp";
  try {
    auto file = runtime::File::create(temporary);
    file.write(std::as_bytes(std::span(header)));
    for (const Entry& entry : entries_of(config, padded)) {
      for (std::int64_t layer = 0; layer < (entry.in_layers ? config.layers : 1); ++layer) write_one(file, entry, layer);
    }
    file.sync();
    runtime::rename_path(temporary, path);
  } catch (const Error&) {
    std::error_code ignored;  // the first error is the one to report
    std::filesystem::remove(temporary, ignored);
    throw;
  }
  runtime::sync_directory(runtime::parent_path(path));
}

}  // namespace millrace::layers
