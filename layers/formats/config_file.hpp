#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "layers/model_config.hpp"

namespace millrace::layers {

/// Reads the config.json of transformers or, if it has the key decoder_block, of MaxText: the family that recognises it reads it.
/// A key that this project does not know is a warning. `where` is named in messages. Errors: Error(model) naming the key, its value and
/// what is supported.
[[nodiscard]] ConfigFile parse_config_file(std::string_view text, const std::string& where);

/// The same from a file, or from the config.json of a folder; or of the header of a file of llm.c (llmc_file.hpp). Errors: Error(model),
/// also when it cannot be read.
[[nodiscard]] ConfigFile read_config_file(const std::filesystem::path& path);

/// The config.json of a model, with the keys of transformers or MaxText as its numerics say; parse_config_file inverts it. `dtype` is that
/// of the exported tensors ("float32", "bfloat16"). Ends with a newline. The text is parsed and compared first: Error(model) naming a key
/// of the model that such a file cannot express.
[[nodiscard]] std::string config_file_text(const ConfigFile& config, std::string_view dtype);

}  // namespace millrace::layers
