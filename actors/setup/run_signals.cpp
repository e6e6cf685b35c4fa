#include "actors/setup/run_signals.hpp"

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace millrace::actors {
namespace {

// Written by handlers on any thread, read by several threads: sig_atomic_t would serve one thread alone.
std::atomic<bool> stop_signal{false}, profile_signal{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a handler may use it");

void note_stop(int) { stop_signal = true; }
void note_profile(int) { profile_signal = true; }

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

bool stop_asked() { return stop_signal; }

bool profile_asked() { return profile_signal.exchange(false); }

}  // namespace millrace::actors
