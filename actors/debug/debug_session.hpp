#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/debug/breakpoint.hpp"
#include "actors/debug/debug_cursor.hpp"
#include "actors/debug/line_reader.hpp"
#include "actors/debug/tensor_finder.hpp"
#include "actors/jobs/stepper.hpp"

namespace millrace::actors {

/// The command interpreter of the debugger: a user or a script controls a stepper. It reads commands, runs actions, stops where
/// requested and shows the state. While it is stopped at an operation, commands run on the rank's worker, and the thread that
/// started the action waits: one thread at a time.
class DebugSession : private runtime::OperationHook {
 public:
  DebugSession(const actors::StepperSetup& setup, std::unique_ptr<LineReader> reader);
  ~DebugSession() override;

  /// Runs until `quit` or the end of the input. In a script, errors of commands are thrown.
  void run();
  /// Possible next words after `before` on a line, for completion.
  [[nodiscard]] std::vector<std::string> words_after(const std::string& before) const;

 private:
  struct Command {
    const char* name;
    const char* brief;  // a letter for it; may be empty
    const char* usage;
    const char* summary;
    std::size_t most;  // number of words allowed after the name
    /// Returns true if the pipeline is to continue.
    bool (DebugSession::*run)(const std::vector<std::string>& words);
  };
  static const std::vector<Command>& commands();
  static const Command* find_command(const std::string& word);  // nullptr if there is none
  static const Command& command_of(const std::string& word);

  // -- commands that continue
  bool step(const std::vector<std::string>& words);
  bool next(const std::vector<std::string>& words);
  bool operation(const std::vector<std::string>& words);
  bool go(const std::vector<std::string>& words);
  bool until(const std::vector<std::string>& words);
  bool back(const std::vector<std::string>& words);
  bool quit(const std::vector<std::string>& words);
  // -- commands that show
  bool break_at(const std::vector<std::string>& words);
  bool remove(const std::vector<std::string>& words);
  bool turn_to(const std::vector<std::string>& words);
  bool where(const std::vector<std::string>& words);
  bool queue(const std::vector<std::string>& words);
  bool operations(const std::vector<std::string>& words);
  bool print(const std::vector<std::string>& words);
  bool statistics(const std::vector<std::string>& words);
  bool histogram(const std::vector<std::string>& words);
  bool dump(const std::vector<std::string>& words);
  bool difference(const std::vector<std::string>& words);
  bool watch(const std::vector<std::string>& words);
  bool set(const std::vector<std::string>& words);
  bool show(const std::vector<std::string>& words);
  bool help(const std::vector<std::string>& words);

  /// The condition that ends a continue command, besides break points.
  struct Goal {
    enum Kind : std::uint8_t { never, actions, actions_of_rank, calls, before_action, before_step } kind = never;
    std::int64_t count = 0;
    runtime::RankId rank;
    runtime::Action action;
  };
  /// A tensor whose change stops execution.
  struct Watch {
    std::string name;
    std::string hash;
  };

  bool read_commands();
  bool carry_out(const std::string& line);
  void advance();
  /// Prints a table, its lines cut to the terminal's width.
  void show_lines(const std::string& text) const;
  void run_one(runtime::RankId rank);
  [[nodiscard]] bool stops_before(const actors::Execute& execute, runtime::RankId rank);
  [[nodiscard]] bool watched_changes(bool updated);
  void check_name(const std::string& name) const;
  void stop(const std::string& why);
  void rebuild(std::size_t actions);
  void begin_stepper(const actors::StateCopy* state, std::int64_t first_step);
  void print_finished_steps();
  void stand_before_next();
  [[nodiscard]] TensorFinder finder() const { return {*stepper_, standing_}; }
  // -- called around operations, on a worker
  void before(const Call& call) override;
  void after(const Call& call) override;
  void stop_inside(const Call& call, bool after, const std::string& why);

  actors::StepperSetup setup_;
  std::unique_ptr<LineReader> reader_;
  std::unique_ptr<actors::Stepper> stepper_;
  DebugCursor standing_;
  Goal goal_;
  std::vector<std::optional<Breakpoint>> breakpoints_;  // by number − 1
  std::vector<Watch> watches_;
  std::vector<std::optional<actors::Execute>> last_;  // by rank: the action that it ran last
  std::vector<runtime::RankId> path_;                 // the rank of each action since the session's beginning
  struct Kept {
    std::size_t at = 0;  // number of actions before it
    std::shared_ptr<const actors::StateCopy> state;
  };
  std::vector<Kept> kept_;          // initial states of the newest steps
  std::int64_t printed_steps_ = 0;  // number of finished steps whose results were printed
  std::optional<std::size_t> back_to_;
  std::string repeated_;  // the line that an empty one repeats; may be empty
  bool quitting_ = false, replaying_ = false;
  std::exception_ptr script_error_;  // of the command that ended a script
};

}  // namespace millrace::actors
