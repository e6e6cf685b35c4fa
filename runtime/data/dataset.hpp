#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/last_part.hpp"
#include "runtime/data/text_files.hpp"
#include "runtime/data/token_stream.hpp"
#include "runtime/train_config.hpp"

namespace millrace::runtime {

/// The data of a run, opened: what is trained on, what is held out, and a name for both.
struct Dataset {
  std::unique_ptr<TokenStream> train;
  std::unique_ptr<TokenStream> held_out;  // null if nothing is held out
  std::string held_out_text;              // what is held out, or why nothing is, for a person
  std::string fingerprint;                // part of a run's identity: the names, sizes and tokens of the files, not where they lie
  std::string format;                     // of the first token file, for a person; empty for text
  std::vector<DataFile> files;            // everything that is read: content_files()
  std::int64_t train_files = 0;
  std::int64_t held_out_files = 0;  // whole ones
};

/// How much is held out: "the last 120 tokens of 1200 (10.0 %), from the beginning of a document".
[[nodiscard]] std::string describe(const LastPart& part, std::int64_t tokens);

/// The files that data.text or data.tokens names, held out or not. Errors: Error(config) for both or neither, Error(data) as of
/// list_data_files.
[[nodiscard]] std::vector<DataFile> data_files(const DataConfig& config);

/// These files, and the .idx beside token files of Megatron: what the content of the data is in.
[[nodiscard]] std::vector<DataFile> content_files(std::vector<DataFile> files, bool text);

/// Opens data.text or data.tokens. Of several files every n-th is held out (n = data.held_out), of a single one the last n-th part
/// (last_part). `vocabulary` is the model's; text needs 257 or more.
/// Errors: Error(data) for what is missing, unreadable, damaged or empty.
[[nodiscard]] Dataset open_dataset(const DataConfig& config, std::int64_t vocabulary);

}  // namespace millrace::runtime
