#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/data/templates/template.hpp"
#include "runtime/data/tokenizers/tokenizer.hpp"
#include "runtime/data/tokenizers/tokenizer_files.hpp"

namespace millrace::runtime {

/// How a tokenizer's files say that messages become a text.
class ChatTemplate {
 public:
  /// Takes chat_template.jinja, else chat_template.json, else the key chat_template of tokenizer_config.json: a text, or a list of named
  /// texts, of which the one named "default" counts. Nothing if there is none. Errors: Error(data) with the file, and the line of the
  /// template.
  [[nodiscard]] static std::optional<ChatTemplate> find(const TokenizerFiles& files);

  /// The text of a conversation. `variables` is an object with `messages` and what else the template shall see; tools and documents are
  /// None unless they are given, and the tokenizer's special tokens have their names (bos_token, eos_token, …), as in transformers. Errors:
  /// Error(data), also for what the template refuses.
  [[nodiscard]] std::string render(const OrderedJson& variables, bool add_generation_prompt) const;

  /// The text that follows what an assistant says, without white space before it; empty if the template does not tell.
  [[nodiscard]] std::string end_of_turn() const;

  [[nodiscard]] const std::string& where() const noexcept { return where_; }

 private:
  ChatTemplate(std::string_view text, std::string where, const OrderedJson& tokens);
  Template template_;
  std::string where_;
  std::shared_ptr<const OrderedJson> tokens_;
};

/// The ids that end a generation: the tokenizer's end of a document, eos_token_id of generation_config.json, the eos_token of
/// tokenizer_config.json, and the special token with which the template ends a turn. Errors: Error(data) for files that cannot be read.
[[nodiscard]] std::vector<std::int32_t> end_tokens(const Tokenizer& tokenizer, const TokenizerFiles& files, const ChatTemplate& chat,
                                                   const std::vector<Tokenizer::SpecialToken>& special);

/// Checks that a value is a list of messages: objects with a text `role`. Errors: Error(data) that begins with `where`.
void check_messages(const OrderedJson& messages, const std::string& where);

}  // namespace millrace::runtime
