# make install, uninstall and deb: what goes where. DESTDIR is a staging folder, PREFIX=/usr is a package's.
SYSCONFDIR ?= /etc
BINDIR = $(PREFIX)/bin
SHAREDIR = $(PREFIX)/share
MANDIR = $(SHAREDIR)/man
DOCDIR = $(SHAREDIR)/doc/ckpt
BASH_FOLDER = $(SHAREDIR)/bash-completion/completions
FISH_FOLDER = $(SHAREDIR)/fish/vendor_completions.d
ZSH_FOLDER ?= $(SHAREDIR)/zsh/site-functions
MAN_PAGES = man1/ckptctl.1 man1/ckpt-run.1 man8/ckptd.8 man8/ckpt-agentd.8 man8/ckpt-worker.8 man8/ckpt-worker-s3.8 man5/ckptd.yaml.5 man5/ckpt-agentd.yaml.5
COMPLETED = ckptctl ckpt-run ckptd ckpt-agentd
DOCUMENTS = RUNBOOK.md JOBS.md TRY.md CLIENTS.md SIZING.md README.md
CONFIGURATIONS = ckptd.yaml ckpt-agentd.yaml

# written by the programs themselves
$(BUILD)/manual/done: deploy/manual.py $(CONFIGURATIONS:%=deploy/%) $(COMPLETED:%=$(BUILD)/bin/%) $(BUILD)/bin/ckpt-worker
	@mkdir -p $(@D)
	$(Q)/usr/bin/python3 -B deploy/manual.py $(BUILD)/bin $(@D) $(VERSION)
	@touch $@

install: programs $(BUILD)/manual/done install-app ## all of it: make install [PREFIX=/usr/local] [DESTDIR=]; make uninstall takes it away
	install -d $(DESTDIR)$(BINDIR)
	install -m 755 $(PROGRAMS:%=$(BUILD)/bin/%) $(DESTDIR)$(BINDIR)
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/lib/sysusers.d $(DESTDIR)$(PREFIX)/lib/tmpfiles.d
	for unit in deploy/systemd/*.service; do \
		sed 's,/usr/bin/,$(BINDIR)/,;s,/etc/ckpt/,$(SYSCONFDIR)/ckpt/,' $$unit > $(DESTDIR)$(PREFIX)/lib/systemd/system/$$(basename $$unit) || exit 1; done
	install -d $(DESTDIR)$(PREFIX)/lib/ckpt $(DESTDIR)$(SHAREDIR)/ckpt/systemd
	install -m 755 deploy/ckptd-start $(DESTDIR)$(PREFIX)/lib/ckpt
	sed 's,/usr/lib/ckpt/,$(PREFIX)/lib/ckpt/,;s,/etc/ckpt/,$(SYSCONFDIR)/ckpt/,' deploy/systemd/ckptd-start.conf > $(DESTDIR)$(SHAREDIR)/ckpt/systemd/ckptd-start.conf
	install -m 644 deploy/systemd/sysusers.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/ckpt.conf
	install -m 644 deploy/systemd/tmpfiles.conf $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/ckpt.conf
	@# what a site has written stays
	install -d $(DESTDIR)$(SYSCONFDIR)/ckpt
	for file in $(CONFIGURATIONS); do \
		[ -e $(DESTDIR)$(SYSCONFDIR)/ckpt/$$file ] || install -m 644 deploy/$$file $(DESTDIR)$(SYSCONFDIR)/ckpt/$$file || exit 1; done
	install -d $(DESTDIR)$(SHAREDIR)/ckpt/profiles $(DESTDIR)$(SHAREDIR)/ckpt/lsf $(DESTDIR)$(SHAREDIR)/ckpt/prometheus $(DESTDIR)$(SHAREDIR)/ckpt/grafana $(DESTDIR)$(DOCDIR)
	install -m 644 $(PROFILES) $(DESTDIR)$(SHAREDIR)/ckpt/profiles
	install -m 755 deploy/lsf/* $(DESTDIR)$(SHAREDIR)/ckpt/lsf
	install -m 644 deploy/prometheus/ckpt.rules.yml deploy/prometheus/scrape.yml $(DESTDIR)$(SHAREDIR)/ckpt/prometheus
	install -m 644 deploy/grafana/ckpt.json $(DESTDIR)$(SHAREDIR)/ckpt/grafana
	install -m 644 $(DOCUMENTS:%=deploy/%) $(DESTDIR)$(DOCDIR)
	install -d $(DESTDIR)$(BASH_FOLDER) $(DESTDIR)$(FISH_FOLDER) $(DESTDIR)$(ZSH_FOLDER)
	for page in $(MAN_PAGES); do install -D -m 644 $(BUILD)/manual/$$page $(DESTDIR)$(MANDIR)/$$page || exit 1; done
	install -m 644 $(BUILD)/manual/bash/* $(DESTDIR)$(BASH_FOLDER)
	install -m 644 $(BUILD)/manual/fish/* $(DESTDIR)$(FISH_FOLDER)
	install -m 644 $(BUILD)/manual/zsh/* $(DESTDIR)$(ZSH_FOLDER)

uninstall:                                      ## what make install has put there; /etc/ckpt stays
	rm -f $(PROGRAMS:%=$(DESTDIR)$(BINDIR)/%) $(MAN_PAGES:%=$(DESTDIR)$(MANDIR)/%)
	rm -f $(COMPLETED:%=$(DESTDIR)$(BASH_FOLDER)/%) $(COMPLETED:%=$(DESTDIR)$(FISH_FOLDER)/%.fish) $(COMPLETED:%=$(DESTDIR)$(ZSH_FOLDER)/_%)
	rm -f $(DESTDIR)$(PREFIX)/lib/systemd/system/ckptd.service $(DESTDIR)$(PREFIX)/lib/systemd/system/ckpt-agentd.service
	rm -f $(DESTDIR)$(PREFIX)/lib/sysusers.d/ckpt.conf $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/ckpt.conf
	rm -f $(DESTDIR)$(PREFIX)/include/ckptapp.h $(DESTDIR)$(PREFIX)/include/ckptshm.h $(DESTDIR)$(PREFIX)/lib/pkgconfig/ckptapp.pc
	rm -f $(DESTDIR)$(PREFIX)/lib/libckptapp.a $(DESTDIR)$(PREFIX)/lib/libckptapp.so $(DESTDIR)$(PREFIX)/lib/libckptapp.so.$(APP_ABI)
	rm -f $(DESTDIR)$(PYTHON_FOLDER)/ckptapp.py $(DESTDIR)$(PYTHON_FOLDER)/ckptshm.py
	rm -rf $(DESTDIR)$(SHAREDIR)/ckpt $(DESTDIR)$(PREFIX)/lib/ckpt $(DESTDIR)$(DOCDIR)

deb:                                            ## Debian packages, into $(BUILD)/deb
	deploy/install-deps.sh deb
	$(MAKE) --no-print-directory $(PARALLEL) programs $(BUILD)/manual/done
	BUILD=$(BUILD) VERSION=$(VERSION) BUILD_ID='$(BUILD_ID)' deploy/debian/build.sh
