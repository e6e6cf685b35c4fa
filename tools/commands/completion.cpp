// millrace completion: scripts that complete the command line in a shell, made from the same description as --help.

#include <filesystem>
#include <utility>

#include "configs/presets.hpp"
#include "configs/schema.hpp"
#include "kernels/base/check.hpp"
#include "runtime/schedule/schedule.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/man_page.hpp"

namespace millrace::tools {
namespace {

using Words = std::vector<std::string>;

constexpr const char* completion_component = "millrace completion";

/// The part that both shells share, in POSIX shell language plus "local". $1 is the word under the cursor, the other arguments are
/// the words between "millrace" and it. Prints the candidates for the whole word, one per line; @files and @folders stand for the
/// shell's own completion of paths.
constexpr const char* candidates_function = R"sh(
_millrace_candidates() {
  local current=$1 command="" previous="" value=""
  shift
  command=${1-}
  if _millrace_is_group "$command" && [ -n "${2-}" ]; then command="$1 $2"; fi
  while [ $# -gt 0 ]; do previous=$1; shift; done
  case $previous in
    --*=*) ;;
    --*)
      if _millrace_value "$command" "$previous" > /dev/null; then
        _millrace_value "$command" "$previous" | _millrace_expand "$current"
        return
      fi
      ;;
  esac
  case $current in
    --*=*)
      _millrace_value "$command" "${current%%=*}" | _millrace_expand "${current#*=}" |
        while IFS= read -r value; do case $value in @*) echo "$value" ;; *) echo "${current%%=*}=$value" ;; esac; done
      ;;
    -*) _millrace_options "$command" ;;
    *) _millrace_words "$command" | _millrace_expand "$current" ;;
  esac
}

_millrace_expand() {
  local current=$1 kind="" value=""
  while IFS= read -r kind; do
    case "$kind $current" in "@assignments "*) ;; *=*) continue ;; esac
    case $kind in
      @schedules) _millrace_schedules ;;
      @keys) _millrace_keys ;;
      @runs) _millrace_runs ;;
      @assignments)
        case $current in
          *=*)
            _millrace_key_values "${current%%=*}" |
              while IFS= read -r value; do case $value in @*) echo "$value" ;; *) echo "${current%%=*}=$value" ;; esac; done
            ;;
          *) _millrace_keys | while IFS= read -r value; do echo "$value="; done ;;
        esac
        ;;
      *) echo "$kind" ;;
    esac
  done
}
)sh";

/// bash splits words at "=" and replaces only the part after it.
constexpr const char* bash_adapter = R"sh(
_millrace() {
  local line=${COMP_LINE:0:COMP_POINT} current="" head="" replaced="" candidate="" file=""
  local -a words
  read -r -a words <<< "$line"
  if [[ $line != *[[:space:]] ]]; then
    current=${words[-1]}
    unset 'words[-1]'
  fi
  [[ $current == *=* ]] && head=${current%%=*}=
  [[ $COMP_WORDBREAKS == *=* ]] && replaced=$head
  COMPREPLY=()
  while IFS= read -r candidate; do
    case $candidate in
      @files | @folders)
        compopt -o filenames 2> /dev/null
        while IFS= read -r file; do
          if [[ $candidate == @files || -d $file ]]; then
            file=$head$file
            COMPREPLY+=("${file#"$replaced"}")
          fi
        done < <(compgen -f -- "${current#"$head"}")
        ;;
      "$current"*) COMPREPLY+=("${candidate#"$replaced"}") ;;
    esac
  done < <(_millrace_candidates "$current" "${words[@]:1}")
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2> /dev/null
  return 0
}
complete -F _millrace millrace
)sh";

constexpr const char* zsh_adapter = R"sh(
_millrace() {
  local current=$PREFIX candidate="" files="" folders=""
  local -a plain open
  for candidate in ${(f)"$(_millrace_candidates "$current" "${(@)words[2,CURRENT-1]}")"}; do
    case $candidate in
      @files) files=1 ;;
      @folders) folders=1 ;;
      *=) open+=("$candidate") ;;
      *) plain+=("$candidate") ;;
    esac
  done
  compadd -- $plain
  compadd -S '' -- $open
  if [[ -n $files$folders ]]; then
    [[ $current == *=* ]] && compset -P '*='
    if [[ -n $files ]]; then _files; else _files -/; fi
  fi
}
if [[ ${funcstack[1]-} == _millrace ]]; then _millrace "$@"; else compdef _millrace millrace; fi
)sh";

std::string in_single_quotes(const std::string& word) {
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

/// One branch of a case: prints `lines`; without lines it prints nothing and succeeds.
std::string branch(const std::string& pattern, const Words& lines) {
  if (lines.empty()) return fmt::format("    {}) ;;\n", in_single_quotes(pattern));
  Words words;
  for (const auto& line : lines) words.push_back(in_single_quotes(line));
  return fmt::format("    {}) printf '%s\\n' {} ;;\n", in_single_quotes(pattern), fmt::join(words, " "));
}

Words names_of(std::uint8_t offer) {
  Words names;
  for (const auto& [bit, name] : {std::pair{offer_files, "@files"},
                                  {offer_folders, "@folders"},
                                  {offer_schedules, "@schedules"},
                                  {offer_assignments, "@assignments"},
                                  {offer_keys, "@keys"},
                                  {offer_runs, "@runs"}})
    if ((offer & bit) != 0) names.emplace_back(name);
  return names;
}

/// The branches of the shell functions that know the commands.
struct Branches {
  std::string groups, options, values, words;

  void add(const std::vector<Command>& commands, const std::string& group) {
    Words names;
    for (const auto& command : commands) names.push_back(command.name);
    if (group.empty()) names.insert(names.end(), {"--help", "--version"});
    words += branch(group, names);
    for (const auto& command : commands) {
      const auto path = group.empty() ? command.name : group + " " + command.name;
      if (!command.parts.empty()) {
        groups += fmt::format("    {}) return 0 ;;\n", in_single_quotes(path));
        options += branch(path, {"--help"});
        add(command.parts, path);
        continue;
      }
      words += branch(path, names_of(command.offer));
      add_options(command, path);
    }
  }

 private:
  void add_options(const Command& command, const std::string& path) {
    Words names{"--help"};
    for (const auto* list : {&command.options, &common_options()}) {
      for (const auto& option : *list) {
        names.push_back("--" + option.name);
        if (!option.value.empty())
          values += branch(path + " --" + option.name, option.choices.empty() ? names_of(option.offer) : option.choices);
      }
    }
    options += branch(path, names);
  }
};

/// The names of presets in a folder of configs/: "models" or "runs".
Words presets_in(const char* folder) {
  try {
    return configs::preset_names(configs::find_configs_folder() / folder);
  } catch (const Error&) {
    return {};  // without the folder configs/ everything else is still completed
  }
}

/// A value may be a path if the key does not list its choices.
Words values_of(const configs::Key& key) {
  if (key.name == "model.preset") return presets_in("models");
  if (!key.choices.empty()) return key.choices;
  if (key.kind == configs::Kind::boolean) return {"true", "false"};
  return key.kind == configs::Kind::text || key.kind == configs::Kind::list ? Words{"@files"} : Words{};
}

std::string shared_functions() {
  Branches branches;
  branches.add(all_commands(), "");
  std::string key_values;
  for (const auto& key : configs::schema())
    if (const auto values = values_of(key); !values.empty()) key_values += branch(key.name, values);
  const auto function = [](const char* name, const char* subject, const std::string& cases, const char* fallback) {
    return fmt::format("\n{}() {{\n  case {} in\n{}    *) {} ;;\n  esac\n}}\n", name, subject, cases, fallback);
  };
  const auto lines = [](const char* name, const Words& words) {
    if (words.empty()) return fmt::format("\n{}() {{\n  return 0\n}}\n", name);
    return fmt::format("\n{}() {{\n  printf '%s\\n' {}\n}}\n", name, fmt::join(words, " "));
  };
  return function("_millrace_is_group", "$1", branches.groups, "return 1") +
         function("_millrace_options", "$1", branches.options, "printf '%s\\n' --help --version") +
         function("_millrace_value", "\"$1 $2\"", branches.values, "return 1") +
         function("_millrace_words", "$1", branches.words, "return 0") + function("_millrace_key_values", "$1", key_values, "return 0") +
         lines("_millrace_keys", configs::key_names()) + lines("_millrace_schedules", runtime::schedule_names()) +
         lines("_millrace_runs", presets_in("runs")) + candidates_function;
}

void check_words(const Arguments& arguments) {
  MILLRACE_CHECK(arguments.positional().empty(), ExitCode::usage, completion_component, "{} after the shell, expected no more words",
                 arguments.positional().front());
}

int print_bash(const Arguments& arguments) {
  check_words(arguments);
  fmt::print("# Completion of millrace in bash. In ~/.bashrc: source <(millrace completion bash)\n{}{}", shared_functions(), bash_adapter);
  return 0;
}

int print_zsh(const Arguments& arguments) {
  check_words(arguments);
  fmt::print("#compdef millrace\n# Completion of millrace in zsh. In ~/.zshrc, after compinit: source <(millrace completion zsh)\n{}{}",
             shared_functions(), zsh_adapter);
  return 0;
}

int print_man(const Arguments& arguments) {
  check_words(arguments);
  fmt::print("{}", man_page(all_commands()));
  return 0;
}

}  // namespace

Command completion_command() {
  return {.name = "completion",
          .summary = "Print a script that completes commands, options, keys and their values in a shell, or the manual page.",
          .notes = "In ~/.bashrc: source <(millrace completion bash). In ~/.zshrc, after compinit: source <(millrace completion zsh).",
          .parts = {{.name = "bash", .summary = "For bash.", .run = print_bash},
                    {.name = "zsh", .summary = "For zsh.", .run = print_zsh},
                    {.name = "man", .summary = "The manual page, for man -l -.", .run = print_man}}};
}

}  // namespace millrace::tools
