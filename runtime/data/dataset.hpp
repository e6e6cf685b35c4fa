#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/text_files.hpp"
#include "runtime/data/token_stream.hpp"
#include "runtime/train_config.hpp"

namespace millrace::runtime {

/// The data of a run, opened: what is trained on, what is held out, and a name for both.
struct Dataset {
  std::unique_ptr<TokenStream> train;
  std::unique_ptr<TokenStream> held_out;  // null if no file is held out (data.held_out = 0, or fewer files than that)
  std::string fingerprint;                // part of a run's identity: the names, sizes and tokens of the files, not where they lie
  std::string format;                     // of the first token file, for a person; empty for text
  std::int64_t train_files = 0;
  std::int64_t held_out_files = 0;
};

/// The files that data.text or data.tokens names, held out or not. Errors: Error(config) for both or neither, Error(data) as of
/// list_data_files.
[[nodiscard]] std::vector<DataFile> data_files(const DataConfig& config);

/// Opens data.text or data.tokens. `vocabulary` is the model's; text wants 257 or more.
/// Errors: Error(data) for what is missing, unreadable, damaged or empty.
[[nodiscard]] Dataset open_dataset(const DataConfig& config, std::int64_t vocabulary);

}  // namespace millrace::runtime
