#include "tools/commands/chat_prompt.hpp"

#include <nlohmann/json.hpp>

#include "kernels/base/check.hpp"
#include "runtime/data/templates/chat_template.hpp"
#include "runtime/data/tokenizers/special_tokens.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::tools {
namespace {

using runtime::OrderedJson;

constexpr std::uint64_t longest_file = std::uint64_t{64} << 20;  // bytes
constexpr int max_depth = 64;                                    // nesting of JSON

/// The variables of the template that a file of messages gives: a list of messages, or an object with `messages`, and with what else the
/// template shall see, such as `tools`.
OrderedJson read_messages(const std::string& path) {
  const std::string text = runtime::read_text_file(path, longest_file, ExitCode::data);
  static_cast<void>(runtime::parse_json(text, max_depth, ExitCode::data, path));  // refuses what is hostile
  auto json = OrderedJson::parse(text);
  if (json.is_array()) json = OrderedJson{{"messages", std::move(json)}};
  MILLRACE_CHECK(json.is_object() && json.contains("messages"), ExitCode::data, "chat",
                 "{}: expected a list of messages, or an object with messages", path);
  runtime::check_messages(json["messages"], path);
  return json;
}

OrderedJson message(const char* role, const std::string& content) {
  auto made = OrderedJson::object();
  made["role"] = role;
  made["content"] = content;
  return made;
}

/// The variables that the template sees. The last message is the user's, or a tool's.
OrderedJson conversation(const Arguments& arguments, const std::string& user, const char* component) {
  auto variables = OrderedJson::object();
  variables["messages"] = OrderedJson::array();
  if (arguments.given("messages")) variables = read_messages(arguments.text("messages"));
  auto& messages = variables["messages"];
  if (arguments.given("system")) {
    MILLRACE_CHECK(messages.empty() || messages.front()["role"] != "system", ExitCode::usage, component,
                   "--system is given, and {} begins with a system message already", arguments.text("messages"));
    messages.insert(messages.begin(), message("system", arguments.text("system")));
  }
  if (!user.empty()) messages.push_back(message("user", user));
  MILLRACE_CHECK(messages.back()["role"] != "assistant" && messages.back()["role"] != "system", ExitCode::usage, component,
                 "the last message is of the {}, expected one to answer: add the user's with --prompt",
                 messages.back()["role"].get<std::string>());
  return variables;
}

}  // namespace

ChatPrompt chat_prompt(const NamedTokenizer& tokens, const Arguments& arguments, const std::string& user, const char* component) {
  const auto variables = conversation(arguments, user, component);
  const auto chat = runtime::ChatTemplate::find(tokens.files);
  MILLRACE_CHECK(chat.has_value(), ExitCode::usage, component,
                 "--chat, and {} has no chat template: expected chat_template.jinja, or chat_template in tokenizer_config.json",
                 tokens.name);
  const auto special = runtime::special_tokens_of(*tokens.tokenizer, tokens.files);
  const std::string text = chat->render(variables, true);
  ChatPrompt prompt;
  prompt.source = chat->where();
  const auto count = runtime::encode_with_special(*tokens.tokenizer, special, text, prompt.ids);
  if (count == 0)
    prompt.warnings.push_back(
        fmt::format("{} writes no special token of {}; is it this tokenizer's template?", prompt.source, tokens.name));
  prompt.ends = runtime::end_tokens(*tokens.tokenizer, tokens.files, *chat, special);
  return prompt;
}

}  // namespace millrace::tools
