#include "actors/setup/run_signals.hpp"

#include <csignal>
#include <initializer_list>

namespace millrace::actors {
namespace {

volatile std::sig_atomic_t stop_signal = 0, profile_signal = 0;

void note_stop(int) { stop_signal = 1; }
void note_profile(int) { profile_signal = 1; }

bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

void handle(int signal, void (*handler)(int), int flags = 0) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | flags;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void note_signals() {
  for (const int signal : {SIGTERM, SIGUSR1}) handle(signal, note_stop);
  // Only once: the second Ctrl-C has the same effect as for any other command.
  if (!is_ignored(SIGINT)) handle(SIGINT, note_stop, static_cast<int>(SA_RESETHAND));
  if (!is_ignored(SIGHUP)) handle(SIGHUP, note_stop);
  handle(SIGUSR2, note_profile);
}

bool stop_asked() { return stop_signal != 0; }

bool profile_asked() {
  const bool asked = profile_signal != 0;
  if (asked) profile_signal = 0;
  return asked;
}

}  // namespace millrace::actors
