#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"

/// Describes commands, options and positional words as data. Parsing, --help and the scripts of `millrace completion` all use this
/// description.
namespace millrace::tools {

/// The kinds of completions that a shell offers for a value or a word. They can be combined with |.
enum Offer : std::uint8_t {
  offer_nothing = 0,
  offer_files = 1,
  offer_folders = 2,
  offer_schedules = 4,    // names of built-in schedules
  offer_assignments = 8,  // key=value of a run description, with the values that the key knows by name
  offer_keys = 16,        // keys of a run description alone
  offer_runs = 32,        // names of installed runs
};

/// An option of a command: "--steps N", or a flag.
struct Option {
  std::string name;                  // without dashes
  std::string value;                 // the name of the value in --help; empty: a flag, which takes no value
  std::string help;                  // one or two sentences
  std::string fallback;              // the default value; empty: none, or one that depends on other things
  std::vector<std::string> choices;  // all values that are allowed; empty: any
  std::uint8_t offer = offer_nothing;
};

class Arguments;

/// A word after `millrace`, or after the word of its group.
struct Command {
  std::string name;
  std::string words;    // the names of the positional words in --help: "RUN.toml [key=value …]"
  std::string summary;  // one sentence, in lists of commands
  std::string notes;    // paragraphs after the options
  std::vector<Option> options;
  std::uint8_t offer = offer_nothing;                // for positional words
  int (*run)(const Arguments& arguments) = nullptr;  // returns the exit code, may throw Error; null: a group of commands
  std::vector<Command> parts;                        // of a group
};

/// The arguments that the user gave to a command. An option that was not given reads as its fallback, or as empty text if it has
/// none.
class Arguments {
 public:
  Arguments(const Command& command, std::map<std::string, std::vector<std::string>> given, std::vector<std::string> positional)
      : command_(&command), given_(std::move(given)), positional_(std::move(positional)) {}

  [[nodiscard]] const std::vector<std::string>& positional() const noexcept { return positional_; }
  [[nodiscard]] bool given(const std::string& name) const { return given_.contains(name); }
  /// The last value that was given, else the option's fallback.
  [[nodiscard]] std::string text(const std::string& name) const;
  /// The last value that was given, else `fallback`, for a default that depends on other things.
  [[nodiscard]] std::string text(const std::string& name, const std::string& fallback) const;
  /// Every value that was given, in order.
  [[nodiscard]] std::vector<std::string> texts(const std::string& name) const;
  /// Throws Error(usage) unless the text is an integer from `min` to `max`.
  [[nodiscard]] long integer(const std::string& name, long min, long max) const;
  [[nodiscard]] long integer(const std::string& name, long fallback, long min, long max) const;
  /// "16000000000" or "15GiB", of an option that was given. Throws Error(usage) for anything else.
  [[nodiscard]] std::uint64_t bytes(const std::string& name) const;
  /// Throws Error(usage) unless the text is a number above 0.
  [[nodiscard]] double real(const std::string& name) const;
  /// Throws Error(usage) unless the text is 0 or a number above it.
  [[nodiscard]] double real_or_zero(const std::string& name) const;

 private:
  const Command* command_;
  std::map<std::string, std::vector<std::string>> given_;  // values by option, empty text for a flag
  std::vector<std::string> positional_;
};

/// Options that every command has, besides --help.
[[nodiscard]] const std::vector<Option>& common_options();

/// A parsed command line: a command with its arguments, or a text to print.
struct Invocation {
  ExitCode code = ExitCode::ok;  // if there is no command
  std::string text;              // if there is no command: help or the version; printed on stderr if `code` is not ok
  const Command* command = nullptr;
  std::optional<Arguments> arguments;
};

/// Parses argv without the program's name. `version` is what --version prints. Without words the result is help and ExitCode::usage.
/// Throws Error(usage), with the nearest right name, for unknown commands and options, and for missing and wrong values of options.
[[nodiscard]] Invocation parse_command_line(const std::vector<Command>& commands, std::vector<std::string> words,
                                            const std::string& version);

}  // namespace millrace::tools
