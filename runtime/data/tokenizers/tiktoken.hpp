#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/data/tokenizers/tokenizer.hpp"

namespace millrace::runtime {

/// Whether a text begins with a line of a .tiktoken file: base64, a space, a number.
[[nodiscard]] bool is_tiktoken(std::string_view text) noexcept;

/// Reads the text of a .tiktoken file: each line has a piece in base64 and its rank, which is its id too. The file does not say
/// how text is split, nor which ids are special. Both are chosen by the file's name, or by the number of pieces if the name is
/// unknown.
///
///   name has           pieces   splits by              begins with   ends with   ids below
///   o200k              199998   o200k                                n + 1       n + 21
///   cl100k             100256   cl100k                               n + 1       n + 21
///   llama3, llama-3    128000   llama3                 n             n + 1       n + 256
///   qwen               151643   qwen2 (after NFC)                    n           n + 208
///   p50k                50280   gpt2                                 50256       n + 1
///   r50k, gpt2          50256   gpt2                                 n           n + 1
///
/// n is the number of pieces; "ends with" is <|endoftext|>, or <|end_of_text|> of Llama 3. Errors: Error(data) with `where` and
/// the line for a malformed line, a byte without a piece, a duplicate piece or rank, and a missing rank. `name` is the file's
/// name.
[[nodiscard]] std::unique_ptr<Tokenizer> read_tiktoken(std::string_view text, const std::string& name, const std::string& where);

}  // namespace millrace::runtime
