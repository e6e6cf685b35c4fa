// The command line by CLI11. No other file includes CLI11: its headers take seconds to compile.

#include "tools/commands/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"

namespace millrace::tools {
namespace {

constexpr std::size_t help_width = 110;   // columns of --help
constexpr std::size_t option_width = 28;  // columns of names of options
constexpr std::size_t command_width = 13;
constexpr const char* positional_words = "words";

/// `text` with line breaks where a line would be longer than `width`. A line break in `text` stays.
std::string wrapped(const std::string& text, std::size_t width) {
  std::string result;
  for (const auto& paragraph : CLI::detail::split(text, '\n')) {
    if (!result.empty()) result += '\n';
    std::size_t column = 0;
    for (const auto& word : CLI::detail::split(paragraph, ' ')) {
      if (column > 0 && column + 1 + word.size() > width) {
        result += '\n';
        column = 0;
      } else if (column > 0) {
        result += ' ';
        ++column;
      }
      result += word;
      column += word.size();
    }
  }
  return result;
}

/// Help in CLI11's order, with our usage line and wrapped text.
class HelpFormatter final : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string words) : words_(std::move(words)) {}
  std::string make_usage(const CLI::App* app, std::string) const override {
    const auto* parent = app->get_parent();
    std::string path = parent == nullptr ? "" : parent->get_name();
    if (parent != nullptr && parent->get_parent() != nullptr) path = parent->get_parent()->get_name() + " " + path;
    if (!path.empty()) path += " ";
    const bool group = !app->get_subcommands({}).empty();
    return "\nUsage: " + path + app->get_name() + (group ? " COMMAND" : "") + (words_.empty() ? "" : " " + words_) + " [options]\n";
  }
  std::string make_description(const CLI::App* app) const override { return wrapped(app->get_description(), help_width) + "\n"; }
  std::string make_positionals(const CLI::App*) const override { return {}; }
  std::string make_option(const CLI::Option* option, bool positional) const override {
    std::ostringstream out;
    CLI::detail::format_help(out, make_option_name(option, positional) + make_option_opts(option),
                             wrapped(make_option_desc(option), help_width - option_width), option_width);
    return out.str();
  }
  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream out;
    CLI::detail::format_help(out, command->get_name(), wrapped(command->get_description(), help_width - command_width), command_width);
    return out.str();
  }
  std::string make_footer(const CLI::App* app) const override {
    return app->get_footer().empty() ? "" : wrapped(app->get_footer(), help_width) + "\n";
  }

 private:
  std::string words_;
};

/// A command as a CLI11 app, and the values that the user gave to it.
struct Parsed {
  const Command* command = nullptr;
  CLI::App* app = nullptr;
  std::vector<std::unique_ptr<Parsed>> parts;
};

std::string help_of(const Option& option) {
  std::string text = option.help;
  if (!option.choices.empty()) text += fmt::format(" One of: {}.", fmt::join(option.choices, ", "));
  if (!option.fallback.empty()) text += fmt::format(" Default: {}.", option.fallback);
  return text;
}

/// Values are read back as the text that was given, since CLI11's conversions interpret "{}" and "[a,b]".
CLI::callback_t keep() {
  return [](const CLI::results_t&) { return true; };
}

void add_option(CLI::App& app, const Option& option) {
  if (option.value.empty()) {
    const std::string help = help_of(option);
    app.add_flag("--" + option.name, help);
    return;
  }
  // The option may be repeated, with one value each time; the command reads the last one or all.
  app.add_option("--" + option.name, keep(), help_of(option))->take_all()->option_text(option.value);
}

std::unique_ptr<Parsed> add_command(CLI::App& parent, const Command& command) {
  auto parsed = std::make_unique<Parsed>();
  parsed->command = &command;
  auto& app = *(parsed->app = parent.add_subcommand(command.name, command.summary));
  app.formatter(std::make_shared<HelpFormatter>(command.words));
  app.set_help_flag("-h,--help", "Print this help and exit.");
  app.group("Commands");
  app.footer(command.notes);
  app.allow_extras();
  if (!command.parts.empty()) {
    app.require_subcommand(0, 1);
    for (const auto& part : command.parts) parsed->parts.push_back(add_command(app, part));
    return parsed;
  }
  for (const auto& option : command.options) add_option(app, option);
  for (const auto& option : common_options()) add_option(app, option);
  app.add_option(positional_words, keep())->take_all()->allow_extra_args();
  return parsed;
}

std::string path_of(const CLI::App& app) {
  const auto* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : path_of(*parent) + " " + app.get_name();
}

/// Reports an option that `app` does not have.
[[noreturn]] void refuse_option(const CLI::App& app, const std::string& word, const std::vector<Option>& known) {
  const auto name = word.substr(word.starts_with("--") ? 2 : 1, word.find('=') == std::string::npos ? word.npos : word.find('=') - 2);
  std::vector<std::string> names{"help"};
  if (app.get_parent() == nullptr) names.emplace_back("version");
  for (const auto& option : known) names.push_back(option.name);
  const auto nearest = nearest_name(name, names);
  for (auto& each : names) each.insert(0, "--");
  fail(ExitCode::usage, "millrace", "unknown option {}, expected {}", word.substr(0, word.find('=')),
       nearest.empty() ? fmt::format("one of {} (see {} --help)", fmt::join(names, ", "), path_of(app)) : "--" + nearest);
}

/// Reports a group without a command, or with an unknown one.
[[noreturn]] void refuse_command(const CLI::App& app, const std::vector<std::string>& unknown, const std::vector<Command>& known) {
  std::vector<std::string> names;
  for (const auto& command : known) names.push_back(command.name);
  if (unknown.empty()) fail(ExitCode::usage, path_of(app).c_str(), "no command, expected one of {}", fmt::join(names, ", "));
  if (unknown.front().starts_with("-")) refuse_option(app, unknown.front(), common_options());
  fail(ExitCode::usage, path_of(app).c_str(), "unknown command {}, expected one of {}{}", unknown.front(), fmt::join(names, ", "),
       did_you_mean(unknown.front(), names));
}

void check_choices(const std::vector<Option>& options, const std::map<std::string, std::vector<std::string>>& values,
                   const std::string& path) {
  for (const auto& option : options) {
    const auto found = values.find(option.name);
    if (option.choices.empty() || found == values.end()) continue;
    for (const auto& value : found->second)
      MILLRACE_CHECK(std::ranges::find(option.choices, value) != option.choices.end(), ExitCode::usage, path.c_str(),
                     "--{} {}, expected {}{}", option.name, value, fmt::join(option.choices, option.choices.size() == 2 ? " or " : ", "),
                     did_you_mean(value, option.choices));
  }
}

/// Returns the command that the user named, with its arguments.
Invocation invocation_of(const Parsed& parsed) {
  const auto& command = *parsed.command;
  if (!command.parts.empty()) {
    for (const auto& part : parsed.parts)
      if (part->app->parsed()) return invocation_of(*part);
    refuse_command(*parsed.app, parsed.app->remaining(), command.parts);
  }
  auto known = command.options;
  known.insert(known.end(), common_options().begin(), common_options().end());
  if (const auto unknown = parsed.app->remaining(); !unknown.empty()) refuse_option(*parsed.app, unknown.front(), known);
  std::map<std::string, std::vector<std::string>> given;
  for (const auto& option : known) {
    const auto* found = parsed.app->get_option("--" + option.name);
    if (found->count() > 0) given[option.name] = found->results();
    if (!option.value.empty() || found->count() == 0) continue;
    for (const auto& value : found->results())
      MILLRACE_CHECK(value == "true", ExitCode::usage, "millrace", "--{}={}, expected --{} alone", option.name, value, option.name);
  }
  check_choices(known, given, path_of(*parsed.app));
  return {.code = ExitCode::ok,
          .command = &command,
          .arguments = Arguments(command, std::move(given), parsed.app->get_option(positional_words)->results())};
}

/// "--name=" gives an empty value; CLI11 would take the next word as the value.
std::vector<std::string> with_empty_values(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (const auto& word : words) {
    if (word.starts_with("--") && word.find('=') == word.size() - 1) {
      result.push_back(word.substr(0, word.size() - 1));
      result.emplace_back();
    } else {
      result.push_back(word);
    }
  }
  return result;
}

/// An option of every command may also stand before the command: it is moved behind the words that name this.
std::vector<std::string> with_options_last(const std::vector<std::string>& words) {
  std::vector<std::string> before;
  auto word = words.begin();
  for (const auto& options = common_options(); word != words.end();) {
    const auto found = std::ranges::find_if(
        options, [&](const Option& option) { return *word == "--" + option.name || word->starts_with("--" + option.name + "="); });
    if (found == options.end()) break;
    const bool takes_next = !found->value.empty() && word->find('=') == std::string::npos;
    MILLRACE_CHECK(!takes_next || std::next(word) != words.end(), ExitCode::usage, "millrace", "{} without a value, expected one", *word);
    const auto end = word + (takes_next ? 2 : 1);
    before.insert(before.end(), word, end);
    word = end;
  }
  MILLRACE_CHECK(before.empty() || word != words.end(), ExitCode::usage, "millrace", "{} without a command, expected one; see --help",
                 fmt::join(before, " "));
  std::vector<std::string> result(word, words.end());
  if (!result.empty() && !result.front().starts_with("-"))  // --help and --version need none of them
    result.insert(result.end(), before.begin(), before.end());
  return result;
}

}  // namespace

Invocation parse_command_line(const std::vector<Command>& commands, std::vector<std::string> words, const std::string& version) {
  CLI::App root("millrace trains large language models across a pipeline of actors.", "millrace");
  root.formatter(std::make_shared<HelpFormatter>(""));
  root.set_help_flag("-h,--help", "Print this help and exit. After a command: the help of the command.");
  root.set_version_flag("--version", version, "Print what this program was built from and exit.");
  root.footer("Exit codes are in docs/errors.md.");
  root.allow_extras();
  root.require_subcommand(0, 1);
  std::vector<std::unique_ptr<Parsed>> all;
  for (const auto& command : commands) all.push_back(add_command(root, command));

  if (words.empty()) {
    return {.code = ExitCode::usage, .text = root.help()};
  }
  words = with_options_last(words);
  if (words.front() == "help") {  // `millrace help train` is `millrace train --help`
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  // Else CLI11 would look for a command among the words that follow, and find one in `inspekt --log-level debug`.
  const auto first = words.front().substr(0, words.front().find('='));
  const bool of_root = first == "-h" || first == "--help" || first == "--version";
  if (!of_root && std::ranges::find(commands, words.front(), &Command::name) == commands.end()) refuse_command(root, words, commands);
  words = with_empty_values(words);
  const auto given = words;
  std::reverse(words.begin(), words.end());  // the order that CLI11 expects
  try {
    root.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    if (root.get_subcommands().empty() && root.remaining_size() > 0) refuse_command(root, root.remaining(), commands);
    return {.text = root.help()};
  } catch (const CLI::CallForVersion&) {
    return {.text = version + "\n"};
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();  // "--stage: 1 required TEXT missing"
    fail(ExitCode::usage, "millrace", "{} without a value, expected one", text.substr(0, text.find(':')));
  } catch (const CLI::ParseError&) {
    // Every value of every option is accepted as text, so that a flag is all that is left.
    fail(ExitCode::usage, "millrace", "{}: an option without a value has one, expected --NAME alone; see --help", fmt::join(given, " "));
  }
  for (const auto& parsed : all)
    if (parsed->app->parsed()) return invocation_of(*parsed);
  refuse_command(root, root.remaining(), commands);
}

}  // namespace millrace::tools
