#include "configs/load.hpp"

// Some malformed files violate assertions of TOML++ 3.3 (for example a table header that begins with a stray byte). Since files are
// user input, these assertions throw here, also with NDEBUG, which would otherwise remove them.
#undef NDEBUG
namespace millrace::configs {
struct ParserAssertion {};
[[noreturn]] static void parser_assertion() { throw ParserAssertion{}; }
}  // namespace millrace::configs
#define TOML_ASSERT(condition) ((condition) ? static_cast<void>(0) : ::millrace::configs::parser_assertion())
#include <toml++/toml.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

#include "configs/key_rules.hpp"
#include "configs/presets.hpp"
#include "configs/schema.hpp"
#include "configs/toml_words.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/nearest.hpp"

namespace millrace::configs {
namespace {

constexpr const char* load_component = "configs.load";
constexpr std::uintmax_t largest_file = 16 << 20;

using Settings = std::map<std::string, Setting>;

// -- TOML values ------------------------------------------------------------

std::optional<Value> list_of(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return std::vector{*text};
  const toml::array* array = node.as_array();
  if (array == nullptr) return std::nullopt;
  std::vector<std::string> list;
  for (const toml::node& entry : *array) {
    const auto text = entry.value_exact<std::string>();
    if (!text) return std::nullopt;
    list.push_back(*text);
  }
  return list;
}

std::optional<Value> numbers_of(const toml::node& node) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return std::nullopt;
  std::vector<double> numbers;
  for (const toml::node& entry : *array) {
    const auto number = entry.value<double>();  // also converts an integer
    if (!number || entry.is_boolean()) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<Value> integers_of(const toml::node& node) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return std::nullopt;
  std::vector<std::int64_t> integers;
  for (const toml::node& entry : *array) {
    const auto integer = entry.value_exact<std::int64_t>();
    if (!integer) return std::nullopt;
    integers.push_back(*integer);
  }
  return integers;
}

/// Nothing if the node is of another type than the key's.
std::optional<Value> value_of(const Key& key, const toml::node& node) {
  switch (key.kind) {
    case Kind::boolean:
      if (const auto value = node.value_exact<bool>()) return *value;
      break;
    case Kind::integer:
      if (const auto value = node.value_exact<std::int64_t>()) return *value;
      break;
    case Kind::number:
      if (const auto value = node.value_exact<double>()) return *value;
      if (const auto value = node.value_exact<std::int64_t>()) return static_cast<double>(*value);
      break;
    case Kind::text:
      if (const auto value = node.value_exact<std::string>()) return *value;
      break;
    case Kind::list:
      return list_of(node);
    case Kind::numbers:
      return numbers_of(node);
    case Kind::integers:
      return integers_of(node);
  }
  return std::nullopt;
}

/// A value as it is written in the file, for messages.
std::string spelled(const toml::node& node) {
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  std::string result = text.str();
  if (const auto line_end = result.find('\n'); line_end != std::string::npos) result = result.substr(0, line_end) + " …";
  return result;
}

std::string place_of(const std::string& file, const toml::source_region& source) {
  return fmt::format("{}:{}:{}", file, source.begin.line, source.begin.column);
}

[[noreturn]] void refuse_value(const Key& key, const std::string& place, std::string_view shown, std::string hint = "") {
  if (!key.choices.empty())
    hint = did_you_mean(shown.size() > 2 && (shown.front() == '"' || shown.front() == '\'') ? shown.substr(1, shown.size() - 2) : shown,
                        key.choices);
  fail(ExitCode::config, load_component, "{}: {} = {}, expected {}{}", place, key.name, shown, expected_text(key), hint);
}

[[noreturn]] void refuse_name(const std::string& name, const std::string& place) {
  const std::string meant = did_you_mean(name, key_names());
  fail(ExitCode::config, load_component, "{}: unknown key {}{}", place, name,
       meant.empty() ? "; `millrace config keys` prints every key" : meant);
}

void set(Settings& settings, const Key& key, const toml::node& node, Layer layer, const std::string& place) {
  const auto value = value_of(key, node);
  if (!value || !in_range(key, *value)) refuse_value(key, place, spelled(node));
  settings[key.name] = {*value, {layer, place}};
}

// -- files ------------------------------------------------------------------

std::string read_text(const std::string& file) {
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(file, error);
  MILLRACE_CHECK(!error && regular, ExitCode::config, load_component, "{}: cannot be read: {}", file,
                 error ? error.message() : "not a regular file");
  const auto size = std::filesystem::file_size(file, error);
  MILLRACE_CHECK(!error && size <= largest_file, ExitCode::config, load_component, "{}: {}, expected at most {}", file, byte_count(size),
                 largest_file);
  std::ifstream stream(file, std::ios::binary);
  MILLRACE_CHECK(stream.good(), ExitCode::config, load_component, "{}: cannot be opened", file);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  MILLRACE_CHECK(!stream.bad(), ExitCode::config, load_component, "{}: cannot be read", file);
  return text;
}

/// TOML++ stores "a.a.a = 1" as nested tables without a limit of depth, and frees them recursively.
void refuse_deep_names(std::string_view text, const std::string& place) {
  constexpr int most = 1000;
  int line = 1, dots = 0;
  char quote = '\0';
  bool comment = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      dots = 0;
      quote = '\0';
      comment = false;
    } else if (comment) {
      continue;
    } else if (quote != '\0') {
      if (c == '\\' && quote == '"' && i + 1 < text.size() && text[i + 1] != '\n') ++i;
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      comment = true;
    } else if (c == '.') {
      MILLRACE_CHECK(++dots <= most, ExitCode::config, load_component, "{}:{}: a name of more than {} parts", place, line, most);
    }
  }
}

/// Line `number` of the text, counted from 1; empty if there is none.
std::string_view line_of(std::string_view text, std::size_t number) {
  for (; number > 1 && !text.empty(); --number) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text.substr(0, text.find('\n'));
}

toml::table parse_file(const std::string& file) {
  const std::string text = read_text(file);
  refuse_deep_names(text, file);
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    fail(ExitCode::config, load_component, "{}: {}", place_of(file, error.source()),
         toml_words(error.description(), line_of(text, error.source().begin.line)));
  } catch (const ParserAssertion&) {
    fail(ExitCode::config, load_component, "{}: not TOML (the parser cannot say where)", file);
  }
}

/// Whether keys are in a section of this name, which may then be empty.
bool is_section(const std::string& name) {
  return std::ranges::any_of(key_names(), [&](const std::string& key) { return key.starts_with(name + "."); });
}

void read_table(const toml::table& table, const std::string& prefix, const std::string& file, Layer layer, Settings& settings) {
  for (const auto& [toml_key, node] : table) {
    const std::string name = prefix + std::string(toml_key.str());
    const std::string place = place_of(file, toml_key.source());
    if (const Key* key = find_key(name)) {
      set(settings, *key, node, layer, place);
    } else if (const toml::table* inner = node.as_table(); inner != nullptr && (!inner->empty() || is_section(name))) {
      read_table(*inner, name + ".", file, layer, settings);
    } else {
      MILLRACE_CHECK(layer != Layer::preset || find_key("model." + name) == nullptr, ExitCode::config, load_component,
                     "{}: {} = {} in no section, expected [model] above it", place, name, spelled(node));
      MILLRACE_CHECK(!is_section(name), ExitCode::config, load_component, "{}: {} = {}, expected a section: [{}], and its keys below it",
                     place, name, spelled(node), name);
      refuse_name(name, place);
    }
  }
}

void read_preset(const std::string& file, Settings& settings) {
  read_table(parse_file(file), "", file, Layer::preset, settings);
  for (const auto& [name, setting] : settings) {
    const bool size = name.starts_with("model.") && name != "model.preset" && name != "model.from";
    MILLRACE_CHECK(size, ExitCode::config, load_component, "{}: {} in a preset, expected only the model's sizes (model.*)",
                   setting.origin.place, name);
  }
}

// -- environment and command line -------------------------------------------

/// Parses a value in TOML syntax; nothing if it is malformed.
std::optional<Value> parse_toml_value(const Key& key, const std::string& text) {
  if (text.find('\n') != std::string::npos) return std::nullopt;  // further lines could define other keys
  refuse_deep_names(text, key.name);
  try {
    const toml::table table = toml::parse("value = " + text);
    return table.size() == 1 ? value_of(key, *table.get("value")) : std::nullopt;
  } catch (const toml::parse_error&) {
    return std::nullopt;
  } catch (const ParserAssertion&) {
    return std::nullopt;
  }
}

std::string without_blanks(std::string text) {
  text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

/// The parts between commas, without the blanks around them; empty ones are left out.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (auto part = without_blanks(text.substr(begin, end - begin)); !part.empty()) parts.push_back(std::move(part));
    begin = end + 1;
  }
  return parts;
}

/// The entries of "[a, b]", of which a shell has removed the quotes; nothing if there are still quotes or brackets within.
std::optional<Value> list_without_quotes(const std::string& text) {
  if (text.size() < 2 || text.back() != ']' || text.find_first_of("\"'[]", 1) != text.size() - 1) return std::nullopt;
  return split(text.substr(1, text.size() - 2));
}

/// Strings need no quotes and lists no brackets here, since shells remove quotes; a list that has lost them to a shell is accepted.
std::optional<Value> parse_text(const Key& key, const std::string& text) {
  const char first = text.empty() ? '\0' : text.front();
  if (key.kind == Kind::text && first != '"' && first != '\'') return text;
  if (key.kind == Kind::list && first != '[') return split(text);
  if ((key.kind == Kind::numbers || key.kind == Kind::integers) && first != '[') return parse_toml_value(key, "[" + text + "]");
  const auto value = parse_toml_value(key, text);
  return !value && key.kind == Kind::list ? list_without_quotes(text) : value;
}

/// How to write a list where a shell reads it first.
std::string shell_hint(const Key& key) {
  return key.kind == Kind::list ? fmt::format(" (a shell removes quotes: {}=a,b or '{}=[\"a\", \"b\"]')", key.name, key.name) : "";
}

void set_text(Settings& settings, const Key& key, const std::string& text, const Origin& origin) {
  const auto value = parse_text(key, text);
  if (!value || !in_range(key, *value)) refuse_value(key, origin.place, text.empty() ? "(empty)" : text, shell_hint(key));
  settings[key.name] = {*value, origin};
}

void read_environment(const std::vector<std::string>& environment, Settings& settings) {
  std::map<std::string, const Key*> names;
  std::vector<std::string> name_list;
  for (const Key& key : schema()) {
    names.emplace(environment_name(key), &key);
    name_list.push_back(environment_name(key));
  }
  // Any variable that begins with MILLRACE_ and the name of a section counts as a key, so that a misspelt one is reported.
  const auto is_ours = [](const std::string& name) {
    if (name == "MILLRACE_LOG_LEVEL") return false;  // no key: which diagnostics a command prints (docs/errors.md)
    for (const Key& key : schema()) {
      const std::string full = environment_name(key);
      const std::size_t section = section_of(key.name).size();
      if (section > 0 && name.starts_with(full.substr(0, sizeof("MILLRACE_") + section))) return true;
    }
    return false;
  };
  for (const std::string& entry : environment) {
    const std::size_t equals = entry.find('=');
    if (!entry.starts_with("MILLRACE_") || equals == std::string::npos) continue;
    const std::string name = entry.substr(0, equals);
    const auto found = names.find(name);
    if (found != names.end()) {
      set_text(settings, *found->second, entry.substr(equals + 1), {Layer::environment, "environment " + name});
    } else if (is_ours(name)) {
      fail(ExitCode::config, load_component, "environment: unknown variable {}{}", name, did_you_mean(name, name_list));
    }
  }
}

void read_overrides(const std::vector<std::string>& overrides, Settings& settings) {
  for (const std::string& entry : overrides) {
    const std::size_t equals = entry.find('=');
    MILLRACE_CHECK(equals != std::string::npos, ExitCode::usage, load_component, "command line: {}, expected key=value", entry);
    const std::string name = entry.substr(0, equals);
    const Key* key = find_key(name);
    if (key == nullptr) refuse_name(name, "command line");
    set_text(settings, *key, entry.substr(equals + 1), {Layer::command_line, "command line"});
  }
}

// -- combining the layers ----------------------------------------------------

std::string text_setting(const Settings& settings, const char* key) {
  const auto found = settings.find(key);
  return found == settings.end() ? std::string() : std::get<std::string>(found->second.value);
}

/// A plan that is a run description counts as the last of the run's files.
void read_plan(Settings& given) {
  const std::string file = text_setting(given, "pipeline.plan");
  if (!file.ends_with(".toml")) return;
  Settings planned;
  read_table(parse_file(file), "", file, Layer::file, planned);
  MILLRACE_CHECK(text_setting(planned, "pipeline.plan").empty(), ExitCode::config, load_component, "{}: a plan names another plan, {}",
                 file, text_setting(planned, "pipeline.plan"));
  for (auto& [name, setting] : planned) {
    const auto known = given.find(name);
    if (known == given.end() || known->second.origin.layer <= Layer::file) given[name] = std::move(setting);
  }
  given["pipeline.plan"] = {std::string(), {Layer::file, file}};
}

/// Takes the model, the weights of losses and the warnings from a model file.
void read_folder(const ModelFile& file, const std::string& from, const Settings& given, LoadedRun& run) {
  RunConfig config;
  config.model = file.model;
  config.train.z_loss = file.losses.z_loss;
  config.train.balance_loss = file.losses.balance_loss;
  config.train.indexer_loss = file.losses.indexer_loss;
  config.train.indexer_warmup = file.losses.indexer_warmup;
  config.train.routed_bias_update_rate = file.losses.routed_bias_update_rate;
  config.train.mtp_loss = file.losses.mtp_loss;
  struct Weight {
    const char *key, *name;  // here and in MaxText's files, the only ones with weights of losses
    double value;
  };
  const Weight weights[] = {{"train.z_loss", "z_loss_multiplier", file.losses.z_loss},
                            {"train.balance_loss", "load_balance_loss_weight", file.losses.balance_loss},
                            {"train.indexer_loss", "indexer_loss_scaling_factor", file.losses.indexer_loss},
                            {"train.mtp_loss", "mtp_loss_scaling_factor", file.losses.mtp_loss},
                            {"train.routed_bias_update_rate", "routed_bias_update_rate", file.losses.routed_bias_update_rate}};
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(from, error);
  const Origin origin{Layer::preset, is_file ? from : (std::filesystem::path(from) / "config.json").string()};
  for (const Key& key : schema()) {
    const bool size = key.name.starts_with("model.") && key.name != "model.preset" && key.name != "model.from";
    const bool weight = std::ranges::any_of(weights, [&](const Weight& each) { return each.value > 0 && key.name == each.key; });
    const bool warmup = file.losses.indexer_warmup && key.name == "train.indexer_warmup";
    if (size || weight || warmup) run.settings[key.name] = {key.fetch(config), origin};
  }
  run.model_warnings = file.warnings;
  for (const auto& [name, setting] : given) {
    const auto own = run.settings.find(name);
    if (!name.starts_with("model.") || own == run.settings.end() || own->second.origin.layer != Layer::preset) continue;
    if (to_text(setting.value) != to_text(own->second.value))
      run.overruled_model +=
          fmt::format("\n  {}: {} = {} overrules {}", setting.origin.place, name, to_text(setting.value), to_text(own->second.value));
  }
  for (const Weight& weight : weights) {
    const auto own = given.find(weight.key);
    if (weight.value > 0 && own != given.end() && std::get<double>(own->second.value) != weight.value)
      run.model_warnings.push_back(fmt::format("{}: {} = {} overrides {} = {} in {}", own->second.origin.place, weight.key,
                                               to_text(own->second.value), weight.name, to_text(Value(weight.value)), origin.place));
  }
}

void read_model(const LoadRequest& request, const Settings& given, LoadedRun& run) {
  const std::string preset = text_setting(given, "model.preset");
  const std::string from = text_setting(given, "model.from");
  if (!preset.empty()) {
    const std::filesystem::path folder =
        request.presets.empty() ? find_configs_folder() / "models" : std::filesystem::path(request.presets);
    Settings settings;
    read_preset(find_preset(preset, folder, given.at("model.preset").origin.place).string(), settings);
    for (const auto& [name, setting] : settings) run.settings[name] = setting;
  } else if (!from.empty() && request.read_model) {
    read_folder(request.read_model(from), from, given, run);
  }
}

/// Derives the sizes that follow from others.
void derive(RunConfig& config, Settings& settings) {
  auto& model = config.model;
  if (model.kv_heads == 0 && model.heads > 0) {
    model.kv_heads = model.heads;
    settings["model.kv_heads"] = {model.kv_heads, {Layer::built_in, "built-in: as model.heads"}};
  }
  if (model.head_dim == 0 && model.heads > 0) {
    const bool latent = model.qk_rope_head_dim > 0;
    model.head_dim = latent ? model.qk_rope_head_dim : model.hidden_size / model.heads;
    settings["model.head_dim"] = {
        model.head_dim, {Layer::built_in, latent ? "built-in: as model.qk_rope_head_dim" : "built-in: model.hidden_size / model.heads"}};
  }
  // A pattern that is shorter than the model repeats.
  const auto repeat = [&](auto& entries, const char* key) {
    const std::size_t period = entries.size();
    if (period == 0 || static_cast<std::int64_t>(period) >= model.layers) return;
    while (static_cast<std::int64_t>(entries.size()) < model.layers) entries.push_back(entries[entries.size() - period]);
    settings[key].value = find_key(key)->fetch(config);
  };
  repeat(model.layer_kinds, "model.layer_types");
  repeat(model.layer_positions, "model.layer_positions");
  repeat(model.mlp_kinds, "model.mlp_layer_types");
}

/// A trial of a few steps, `train.steps=5` after a description of hundreds: where the description's warm-up and decay do not fit into them,
/// they are shortened as the steps are, with a warning. `described`: the settings of the files alone.
void shorten_schedule(const Settings& described, LoadedRun& run) {
  auto& train = run.config.train;
  const Origin& origin = run.settings.at("train.steps").origin;
  const bool decays = train.decay.starts_with("wsd");
  if (origin.layer <= Layer::file || train.schedule_steps > 0) return;
  const std::int64_t needed = train.warmup_steps + (decays ? train.decay_steps : 0);
  if (needed < train.steps || (decays && needed == train.steps)) return;  // a rate that only rises does not fit
  const auto steps = described.find("train.steps");
  const auto planned = steps == described.end() ? RunConfig().train.steps : std::get<std::int64_t>(steps->second.value);
  if (planned <= train.steps) return;
  const auto shorten = [&](const char* key, std::int64_t& member, std::int64_t shorter) {
    Setting& setting = run.settings.at(key);
    if (setting.origin.layer != Layer::file || shorter >= member) return;
    run.warnings.push_back(fmt::format("{}: {} = {} is for a run of {}; with train.steps = {} ({}) it is {}", setting.origin.place, key,
                                       member, counted(planned, "step"), train.steps, origin.place, shorter));
    member = shorter;
    run.shortened.emplace_back(key);
    setting = {member, {setting.origin.layer, fmt::format("{}, shortened for train.steps = {}", setting.origin.place, train.steps)}};
  };
  if (decays) shorten("train.decay_steps", train.decay_steps, std::max<std::int64_t>(1, train.decay_steps * train.steps / planned));
  const std::int64_t room = std::max<std::int64_t>(0, train.steps - (decays ? train.decay_steps : 0));
  shorten("train.warmup_steps", train.warmup_steps, std::min(room, (train.warmup_steps * train.steps + planned - 1) / planned));
}

/// Where the run evaluates: on data.validation, on a part that it holds out, or, if neither is given, on validation data found beside
/// the training data.
void choose_evaluation(const LoadRequest& request, LoadedRun& run) {
  auto& data = run.config.data;
  const auto nothing_held_out = [&](const char* why) {
    data.held_out = 0;
    run.settings["data.held_out"] = {data.held_out, {Layer::built_in, fmt::format("built-in: 0, as data.validation is {}", why)}};
  };
  const Setting& given = run.settings.at("data.validation");
  const Setting& share = run.settings.at("data.held_out");
  if (run.given("data.validation")) {
    // A share from a layer below is overridden, as the other values of that layer are.
    if (!data.validation.empty() && share.origin.layer < given.origin.layer) nothing_held_out("given");
    return;
  }
  if (data.tokens.empty() || !request.find_validation) return;
  const auto found = request.find_validation(run.config);
  if (found.files.empty()) return;
  if (run.given("data.held_out")) {
    if (found.in_training)
      run.warnings.push_back(
          fmt::format("{}: data.held_out = {} is given, so the run trains on {}, which data.tokens contains; "
                      "data.validation would evaluate on it",
                      share.origin.place, data.held_out, found.files.front()));
    return;
  }
  if (!found.unused.empty()) {
    run.warnings.push_back(fmt::format("{}: {}", fmt::join(found.files, ", "), found.unused));
    return;
  }
  data.validation = found.files;
  data.validation_found = true;
  run.settings["data.validation"] = {data.validation, {Layer::built_in, "built-in: found beside data.tokens"}};
  nothing_held_out("found");
}

}  // namespace

LoadedRun load(const LoadRequest& request) {
  Settings given;
  for (const std::string& file : request.files) read_table(parse_file(file), "", file, Layer::file, given);
  const Settings described = given;
  read_environment(request.environment, given);
  read_overrides(request.overrides, given);
  read_plan(given);

  LoadedRun run;
  for (const Key& key : schema()) run.settings[key.name] = {key.fetch(run.config), {}};
  read_model(request, given, run);
  for (const auto& [name, setting] : given) run.settings[name] = setting;
  for (const Key& key : schema()) key.store(run.config, run.settings.at(key.name).value);
  derive(run.config, run.settings);
  shorten_schedule(described, run);
  choose_evaluation(request, run);
  check_key_rules(run, request.complete, request.saves);
  return run;
}

std::string toml_version() { return fmt::format("TOML++ {}.{}.{}", TOML_LIB_MAJOR, TOML_LIB_MINOR, TOML_LIB_PATCH); }

std::vector<std::string> environment_of_process() {
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) environment.emplace_back(*entry);
  return environment;
}

}  // namespace millrace::configs
