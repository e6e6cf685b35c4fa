#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/data/tokenizers/tokenizer.hpp"

namespace millrace::runtime {

/// Whether a text begins with a line of a .tiktoken file: base64, a space, a number.
[[nodiscard]] bool is_tiktoken(std::string_view text) noexcept;

/// Reads the text of a .tiktoken file: lines of a piece in base64 and its rank, which is its id too. The file does not say how text is
/// split, nor which ids are special: that goes by the file's name, and where that says nothing by the number of pieces.
///
///   name has           pieces   splits by              begins with   ends with   ids below
///   o200k              199998   o200k                                n + 1       n + 21
///   cl100k             100256   cl100k                               n + 1       n + 21
///   llama3, llama-3    128000   llama3                 n             n + 1       n + 256
///   qwen               151643   qwen2 (after NFC)                    n           n + 208
///   p50k                50280   gpt2                                 50256       n + 1
///   r50k, gpt2          50256   gpt2                                 n           n + 1
///
/// n is the number of pieces; "ends with" is <|endoftext|>, or <|end_of_text|> of Llama 3.
/// Errors: Error(data) naming `where` and the line, for anything else, a byte without a piece, a piece or rank that comes twice, a rank
/// that is left out. `name` is the file's name.
[[nodiscard]] std::unique_ptr<Tokenizer> read_tiktoken(std::string_view text, const std::string& name, const std::string& where);

}  // namespace millrace::runtime
