#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/commands/command.hpp"
#include "tools/commands/model_tokenizer.hpp"

namespace millrace::tools {

/// A conversation as the model reads it.
struct ChatPrompt {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> ends;  // the tokens that end the answer
  std::string source;              // where the template is from, for messages
  std::vector<std::string> warnings;
};

/// Renders the messages of --messages, --system and --prompt (or `user`, what was read of --prompt-file; may be empty) through the
/// tokenizer's chat template. Errors: Error(usage) if the tokenizer has none or the options contradict each other, Error(data).
[[nodiscard]] ChatPrompt chat_prompt(const NamedTokenizer& tokens, const Arguments& arguments, const std::string& user,
                                     const char* component);

}  // namespace millrace::tools
