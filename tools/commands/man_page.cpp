#include "tools/commands/man_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace millrace::tools {
namespace {

/// Text as roff prints it: a backslash and a hyphen have meanings of their own, and so have a dot and a quote that begin a line.
std::string roff(const std::string& text) {
  std::string escaped;
  bool begins = true;
  for (const char letter : text) {
    if (begins && (letter == '.' || letter == '\'')) escaped += "\\&";
    begins = letter == '\n';
    if (letter == '\\')
      escaped += "\\e";
    else if (letter == '-')
      escaped += "\\-";
    else
      escaped += letter;
  }
  return escaped;
}

std::string option_text(const Option& option) {
  std::string help = option.help;
  if (!option.choices.empty()) help += fmt::format(" One of: {}.", fmt::join(option.choices, ", "));
  if (!option.fallback.empty()) help += fmt::format(" Default: {}.", option.fallback);
  const std::string value = option.value.empty() ? "" : fmt::format(" \\fI{}\\fR", roff(option.value));
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff("--" + option.name), value, roff(help));
}

std::string command_text(const Command& command, const std::string& path) {
  if (!command.parts.empty()) {
    std::string text;
    for (const Command& part : command.parts) text += command_text(part, path + " " + part.name);
    return text;
  }
  std::string text = fmt::format(".SS {}\n\\fB{}\\fR [\\fIoptions\\fR]{}\n.PP\n{}\n", roff(path), roff(path),
                                 command.words.empty() ? "" : " " + roff(command.words), roff(command.summary));
  for (const Option& option : command.options) text += option_text(option);
  if (!command.notes.empty()) text += fmt::format(".PP\n{}\n", roff(command.notes));
  return text;
}

}  // namespace

std::string man_page(const std::vector<Command>& commands) {
  std::string text =
      ".\\\" -*- coding: utf-8 -*-\n.TH MILLRACE 1\n.SH NAME\nmillrace \\- trains large language models across a pipeline of actors\n"
      ".SH SYNOPSIS\n\\fBmillrace\\fR \\fIcommand\\fR [\\fIoptions\\fR] [\\fIwords\\fR]\n.SH COMMANDS\n";
  for (const Command& command : commands) text += command_text(command, "millrace " + command.name);
  text += ".SH OPTIONS OF EVERY COMMAND\n";
  for (const Option& option : common_options()) text += option_text(option);
  text += option_text({.name = "help", .value = "", .help = "Print the help of the command and exit.", .fallback = "", .choices = {}});
  return text +
         ".SH SEE ALSO\nThe documents in share/doc/millrace: README.md, docs/errors.md (exit codes), docs/keys.md (keys of a run).\n";
}

}  // namespace millrace::tools
