#include "runtime/data/templates/chat_template.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* chat_component = "chat";
constexpr int max_chat_config_depth = 64;  // nesting of JSON
constexpr const char* token_names[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

/// Calls `use` with a reader of a JSON file, if the tokenizer has it.
template <class Use>
void with_file(const TokenizerFiles& files, const std::string& name, Use use) {
  const auto file = files.files.find(name);
  if (file == files.files.end()) return;
  const std::string where = files.source + "/" + name;
  const Json json = parse_json(file->second, max_chat_config_depth, ExitCode::data, where);
  use(JsonReader(json, where, ExitCode::data));
}

/// A token as configs spell it: a text, or an object with `content`.
void add_tokens(const JsonReader& config, OrderedJson& tokens) {
  for (const char* name : token_names) {
    if (tokens.contains(name) || config.find(name) == nullptr) continue;
    const JsonReader token = config.member(name);
    tokens[name] = token.value().is_object() ? token.member("content").text() : token.text();
  }
}

struct Source {
  std::string text, where;
};

/// The template in a config: a text, or a list of {"name", "template"}.
std::optional<Source> source_in(const JsonReader& config) {
  if (config.find("chat_template") == nullptr) return std::nullopt;
  const JsonReader found = config.member("chat_template");
  const std::string where = config.where() + ": chat_template";
  if (found.value().is_string()) return Source{found.text(), where};
  std::string names;
  for (const auto& each : found.elements()) {
    const std::string name = each.member("name").text();
    if (name == "default") return Source{each.member("template").text(), where + " default"};
    names += (names.empty() ? "" : ", ") + name;
  }
  found.refuse(fmt::format("expected one with the name default, found were: {}", names));
}

std::optional<Source> find_source(const TokenizerFiles& files) {
  if (const auto file = files.files.find("chat_template.jinja"); file != files.files.end())
    return Source{file->second, files.source + "/chat_template.jinja"};
  std::optional<Source> source;
  for (const char* name : {"chat_template.json", "tokenizer_config.json"})
    if (!source) with_file(files, name, [&](const JsonReader& config) { source = source_in(config); });
  return source;
}

std::optional<std::int32_t> id_of(const std::string& text, const std::vector<Tokenizer::SpecialToken>& special) {
  const auto found = std::find_if(special.begin(), special.end(), [&](const auto& token) { return token.text == text; });
  return found == special.end() ? std::nullopt : std::optional(found->id);
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view text, std::string where, const OrderedJson& tokens)
    : template_(text, where), where_(std::move(where)), tokens_(std::make_shared<const OrderedJson>(tokens)) {}

std::optional<ChatTemplate> ChatTemplate::find(const TokenizerFiles& files) {
  const auto source = find_source(files);
  if (!source) return std::nullopt;
  OrderedJson tokens = OrderedJson::object();
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"})
    with_file(files, name, [&](const JsonReader& config) { add_tokens(config, tokens); });
  return ChatTemplate(source->text, source->where, tokens);
}

std::string ChatTemplate::render(const OrderedJson& variables, bool add_generation_prompt) const {
  OrderedJson all = *tokens_;
  all["tools"] = nullptr;
  all["documents"] = nullptr;
  for (const auto& [name, value] : variables.items()) all[name] = value;
  all["add_generation_prompt"] = add_generation_prompt;
  return template_.render(all);
}

std::string ChatTemplate::end_of_turn() const {
  constexpr std::string_view marker = "marker-of-a-reply";
  try {
    const OrderedJson messages = {{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", marker}}};
    const std::string text = render({{"messages", messages}}, false);
    const std::size_t at = text.rfind(marker);
    const std::size_t end = at == std::string::npos ? at : text.find_first_not_of(" \t\r\n", at + marker.size());
    return end == std::string::npos ? "" : text.substr(end);
  } catch (const Error&) {
    return "";  // the template knows other roles
  }
}

std::vector<std::int32_t> end_tokens(const Tokenizer& tokenizer, const TokenizerFiles& files, const ChatTemplate& chat,
                                     const std::vector<Tokenizer::SpecialToken>& special) {
  std::vector<std::int32_t> ends;
  const auto add = [&](std::optional<std::int32_t> id) {
    if (id && std::find(ends.begin(), ends.end(), *id) == ends.end()) ends.push_back(*id);
  };
  add(tokenizer.end_of_document());
  with_file(files, "generation_config.json", [&](const JsonReader& config) {
    if (config.find("eos_token_id") == nullptr) return;
    const JsonReader ids = config.member("eos_token_id");
    const auto read = [&](const JsonReader& id) { add(static_cast<std::int32_t>(id.integer(0, std::int64_t{1} << 30))); };
    if (!ids.value().is_array()) return read(ids);
    for (const auto& id : ids.elements()) read(id);
  });
  with_file(files, "tokenizer_config.json", [&](const JsonReader& config) {
    OrderedJson tokens = OrderedJson::object();
    add_tokens(config, tokens);
    if (tokens.contains("eos_token")) add(id_of(tokens["eos_token"].get<std::string>(), special));
  });
  const std::string end = chat.end_of_turn();
  const Tokenizer::SpecialToken* longest = nullptr;
  for (const auto& token : special)
    if (end.starts_with(token.text) && (longest == nullptr || token.text.size() > longest->text.size())) longest = &token;
  if (longest != nullptr) add(longest->id);
  return ends;
}

void check_messages(const OrderedJson& messages, const std::string& where) {
  MILLRACE_CHECK(messages.is_array() && !messages.empty(), ExitCode::data, chat_component,
                 "{}: expected a list of messages, such as [{{\"role\": \"user\", \"content\": \"Hello\"}}]", where);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto& message = messages[i];
    MILLRACE_CHECK(message.is_object() && message.contains("role") && message["role"].is_string(), ExitCode::data, chat_component,
                   "{}: message {} is {}, expected an object with a role (such as system, user or assistant) and a content", where, i + 1,
                   JsonReader::shown(Json::parse(message.dump())));
    MILLRACE_CHECK(message.contains("content") || message.contains("tool_calls"), ExitCode::data, chat_component,
                   "{}: message {} of {} has no content", where, i + 1, message["role"].get<std::string>());
  }
}

}  // namespace millrace::runtime
