#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/data/tokenizers/byte_pair_tokenizer.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::runtime {

/// The parts of a tokenizer.json around its model; each function fills its part of `model`. `file` is the whole file.

/// Reads normalisation, splitters and the handling of spaces. Returns true if the model is over bytes, that is, if there is a
/// ByteLevel pre-tokenizer.
[[nodiscard]] bool read_text_steps(const JsonReader& file, BytePairModel& model);

/// Checks that the decoder is of a known type, and reads whether it strips the first space.
void read_decoder(const JsonReader& file, bool over_bytes, BytePairModel& model);

/// Reads the tokens that begin and end a document: those that TemplateProcessing puts around a text. Without it, the end is the
/// special token with the name that published models use. `special` maps names of special tokens to ids.
void read_document_borders(const JsonReader& file, const std::map<std::string, std::int32_t>& special, BytePairModel& model);

}  // namespace millrace::runtime
