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

/// The opened data of a run: the training stream, the held-out stream, and a fingerprint of both.
struct Dataset {
  std::unique_ptr<TokenStream> train;
  std::unique_ptr<TokenStream> held_out;  // null if nothing is held out
  std::string held_out_text;              // what is held out, or why nothing is, as text for messages
  std::string fingerprint;                // part of a run's identity: names, sizes and token counts of the files, but not their folder
  std::string format;                     // format of the first token file, as text for messages; empty for text
  std::vector<DataFile> files;            // every file that is read: content_files()
  std::int64_t train_files = 0;
  std::int64_t held_out_files = 0;  // number of files held out whole
};

/// Describes how much is held out, such as "the last 120 tokens of 1200 (10.0 %), from the beginning of a document".
[[nodiscard]] std::string describe(const LastPart& part, std::int64_t tokens);

/// The files that data.text or data.tokens names, held out or not. Errors: Error(config) if both or neither is set, Error(data)
/// as list_data_files() throws it.
[[nodiscard]] std::vector<DataFile> data_files(const DataConfig& config);

/// The files whose bytes make up the content of the data: `files`, and the .idx beside each Megatron token file.
[[nodiscard]] std::vector<DataFile> content_files(std::vector<DataFile> files, bool text);

/// Opens data.text or data.tokens. With several files every n-th is held out (n = data.held_out), with a single file the last
/// n-th part (last_part). `vocabulary` is the model's vocabulary size; text needs 257 or more. Errors: Error(data) for files that
/// are missing, unreadable, damaged or empty.
[[nodiscard]] Dataset open_dataset(const DataConfig& config, std::int64_t vocabulary);

}  // namespace millrace::runtime
