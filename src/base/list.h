/* An intrusive circular doubly linked list: the node is a member of the listed struct.
 *
 * Flow     list_init() for heads, and for nodes that may be removed before they were in a list; a
 *          walk goes from head.next to the head; LIST_ITEM() gives the struct around a node. A walk
 *          that removes nodes takes node->next first.
 * Shapes   the head is a node of its own; a node is in one list at a time. No memory is owned.
 */
#ifndef CKPT_BASE_LIST_H
#define CKPT_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* A head or a node. In an empty list, and in a node outside of lists, both pointers lead to
 * itself. */
struct list {
    struct list *next;
    struct list *previous;
};

/* The `type` whose `member` the node is. */
#define LIST_ITEM(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))
/* The same for a constant node. */
#define LIST_ITEM_CONST(node, type, member)                                                        \
    ((const type *)(const void *)((const char *)(node)-offsetof(type, member)))

static inline void list_init(struct list *head)
{
    head->next = head;
    head->previous = head;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_push_back(struct list *head, struct list *node)
{
    node->previous = head->previous;
    node->next = head;
    head->previous->next = node;
    head->previous = node;
}

/* Also right for a node that is in no list but was list_init'ed. */
static inline void list_remove(struct list *node)
{
    node->previous->next = node->next;
    node->next->previous = node->previous;
    list_init(node);
}

#endif
