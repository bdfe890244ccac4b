// SPDX-License-Identifier: GPL-2.0-only
/* Registers the congestion control of an object file, and keeps it until killed: load OBJECT NAME */
#include <bpf/libbpf.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct bpf_object *object;
	struct bpf_map *map;

	if (argc != 3)
		return 2;
	object = bpf_object__open_file(argv[1], NULL);
	if (!object || bpf_object__load(object)) {
		perror("load");
		return 1;
	}
	map = bpf_object__find_map_by_name(object, argv[2]);
	if (!map || !bpf_map__attach_struct_ops(map)) {
		perror("attach");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
