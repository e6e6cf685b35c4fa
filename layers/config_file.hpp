#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layers/model_config.hpp"

namespace millrace::layers {

/// Of decoder layers that a file may ask for. Each takes some 30 kB to describe before its weights are looked for.
inline constexpr std::int64_t most_layers = 4096;

/// What a config.json says.
struct ConfigFile {
  ModelConfig model;
  double z_loss = 0;  // MaxText's stands in the same file; part of the loss wherever the file is used
  // bos_token_id, eos_token_id, pad_token_id where they are there, as JSON (a number or a list): of no use here, but to who generates.
  std::vector<std::pair<std::string, std::string>> token_ids = {};
  // What a person should know: keys that nobody knows, dropout that is not applied, the z-loss. Every command that reads the file prints
  // them once.
  std::vector<std::string> warnings = {};
};

/// Reads the config.json of transformers (hugging_face/config.hpp) or, where it has the key decoder_block, of MaxText (maxtext/config.hpp).
/// A key that this project does not know is a warning. `where` is named in messages. Errors: Error(model) naming the key, its value and
/// what is supported.
[[nodiscard]] ConfigFile parse_config_file(std::string_view text, const std::string& where);

/// The same from a file, or from the config.json of a folder; or of the header of a file of llm.c (llmc_file.hpp). Errors: Error(model),
/// also when it cannot be read.
[[nodiscard]] ConfigFile read_config_file(const std::filesystem::path& path);

/// The config.json of a model, in the language of its numerics; parse_config_file makes the same of it again. `dtype` is the one of the
/// exported tensors ("float32", "bfloat16"). Ends with a newline.
/// What is written is read again first: Error(model) naming a key of the model that the file cannot say.
[[nodiscard]] std::string config_file_text(const ConfigFile& config, std::string_view dtype);

}  // namespace millrace::layers
