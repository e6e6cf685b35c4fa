#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/data/tokenizers/byte_pair_tokenizer.hpp"
#include "runtime/data/tokenizers/json_view.hpp"

namespace millrace::runtime {

/// The parts of a tokenizer.json around its model, each into `model`. `file` is the whole file.

/// True if the model is over bytes: there is a ByteLevel pre-tokenizer. Sets normalisation, splitters and what is done with spaces.
[[nodiscard]] bool read_text_steps(const JsonView& file, BytePairModel& model);

/// The decoder has to undo what the steps do.
void read_decoder(const JsonView& file, bool over_bytes, BytePairModel& model);

/// What a document begins and ends with: what TemplateProcessing puts around a text, else for the end a special token by the name that
/// published models give it. `special` are the special tokens by name.
void read_document_borders(const JsonView& file, const std::map<std::string, std::int32_t>& special, BytePairModel& model);

}  // namespace millrace::runtime
