// std::shared_ptr of libstdc++ reads this variable of glibc 2.32 to save itself atomic instructions while a process has
// one thread. Torch starts threads anyway, and with a variable of their own, which says so, the libraries load with
// glibc 2.28, as torch's own do.
extern "C" {
char __libc_single_threaded = 0;
}
